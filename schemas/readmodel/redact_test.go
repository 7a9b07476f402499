package readmodel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// schemas/MAPPING.md, "E-mail removal".
func TestRemoveMail_RemovesAddressesOnly(t *testing.T) {
	const x = mailRemoved
	tests := []struct {
		in, want string
		own      []string
	}{
		{in: "nothing here", want: "nothing here"},
		{in: "a@b.co", want: x},
		{in: "(a@b.co)", want: "(" + x + ")"},
		{in: "a@b.co.", want: x + "."},
		{in: "a@b.co-", want: x + "-"},
		{in: "mailto:First.Last+tag@sub.b-c.example?subject=x", want: "mailto:" + x + "?subject=x"},
		{in: "https://x.example/@ann.lee/post", want: "https://x.example/@ann.lee/post"},
		{in: "@ann follow", want: "@ann follow"},
		{in: "dev@company", want: "dev@company"},
		{in: "dev@.co", want: "dev@.co"},
		{in: "x@y.zz@w.vv", want: x + "@w.vv"},
		{in: "a@@b.co", want: "a@@b.co"},
		{in: "q%40b.co and %40b.co", want: x + " and %40b.co"},
		{in: "fuß＠exämple.de，好", want: x + "，好"},
		{in: "メール:田中﹫例え.jp。", want: "メール:" + x + "。"},
		{in: "📧a@b.co", want: "📧" + x},
		{in: "git@codehost.example:a/b", want: x + ":a/b"},
		{in: "1/a@b.co", want: "1/" + x},
		{in: "Odd@Local odd@localhost", want: x + " " + x + "host", own: []string{"odd@local"}},
		{in: `"j d"@x.example`, want: x, own: []string{`"j d"@x.example`}},
		{in: "@a b@ c", want: "@a b@ c", own: []string{"@a", "b@", "@"}},
		{in: "aa@b aa@b.c", want: x + " " + x, own: []string{"a@b", "aa@b"}},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			var w writer
			w.own.set(tt.own)
			got := tt.in
			if _, mail := inspect(tt.in); mail {
				got, _ = w.removeMail(tt.in)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestIsMailName_FindsMailInAnyCase(t *testing.T) {
	for name, want := range map[string]bool{
		"email": true, "E-Mail": true, "work_emails": true, "MAILBOX": true, "main": false, "mai": false, "name": false,
		"a@b.co": true, "": false,
	} {
		require.Equal(t, want, isMailName(name), name)
	}
}

func TestInspect_FindsEveryByteAtAnyPosition(t *testing.T) {
	for _, filler := range []string{"a", " ", "\x7f", "\x80", "\xff", "A", "\xee", "?", "!"} {
		for length := range 20 {
			plain := strings.Repeat(filler, length)
			escape, mail := inspect(plain)
			require.False(t, escape || mail, "%q", plain)
			for i := range length {
				for c := range 256 {
					s := plain[:i] + string([]byte{byte(c)}) + plain[i+1:]
					escape, mail := inspect(s)
					require.Equal(t, c < 0x20 || c == '"' || c == '\\', escape, "%q", s)
					require.Equal(t, c == '@' || c == '%' || c == 0xef, mail, "%q", s)
				}
			}
		}
	}
}
