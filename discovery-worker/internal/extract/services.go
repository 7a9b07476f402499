package extract

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/view"
	"muster/schemas/identity"
)

// platformNames are names of the platforms in texts, as LabelKey normalizes them.
var platformNames = map[string]string{ //nolint:gochecknoglobals // a constant table
	"github": identity.Codehost, "git hub": identity.Codehost, "gh": identity.Codehost, "codehost": identity.Codehost,
	"github com": identity.Codehost, "linkedin": identity.Network, "linked in": identity.Network,
	"network": identity.Network, "linkedin com": identity.Network,
	"twitter": identity.Microblog, "x": identity.Microblog, "microblog": identity.Microblog,
	"x com": identity.Microblog, "twitter com": identity.Microblog, "twitter x": identity.Microblog,
	"x twitter": identity.Microblog, "x formerly twitter": identity.Microblog,
}

// platformNamed returns the platform with a name, or "" for any other service.
func platformNamed(s string) string { return platformNames[lexicon.LabelKey(strings.ToLower(s))] }

// otherServices match services without a profile field.
var otherServices = regexp.MustCompile(`(?i)^(?:facebook|instagram|insta|youtube|tiktok|mastodon|bluesky|threads` +
	`|reddit|pinterest|snapchat|telegram|whatsapp|signal|discord|slack|twitch` +
	`|medium|substack|dev\.?to|hashnode|stack ?overflow|stack ?exchange|quora|gitlab|bitbucket|codeberg|sourcehut` +
	`|kaggle|hugging ?face|leetcode|hackerrank|codepen|npm|pypi|docker ?hub` +
	`|orcid|google ?scholar|researchgate|academia(?:\.edu)?|publons|xing|viadeo|vk|vkontakte|weibo|wechat|line|qq` +
	`|douban|zhihu|behance|dribbble|deviantart|artstation|flickr|500px|vimeo` +
	`|soundcloud|spotify|bandcamp|goodreads|letterboxd|strava|steam|skype|keybase|angellist|wellfound` +
	`|product ?hunt|hacker ?news|indie ?hackers|patreon|ko-?fi|gravatar|about\.me|linktree)$`)

// isService reports whether a phrase is the name of a service with accounts.
func isService(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) < 30 && (platformNamed(s) != "" || otherServices.MatchString(s))
}

// Handles next to the name of a service.
const (
	serviceExpr = `(github|git hub|codehost|twitter|microblog|linkedin|network|instagram|mastodon|bluesky|facebook` +
		`|youtube|tiktok|telegram|gitlab|threads|medium|kaggle|x)`
	handleExpr = `([\w](?:[\w.-]{0,38}[\w])?)`
)

// handlePatterns match accounts in texts.
type handlePatterns struct {
	before  *regexp.Regexp // "GitHub as @ada", "on LinkedIn under ada-m"
	after   *regexp.Regexp // "@ada on GitHub", "@ada (GitHub)"
	written *regexp.Regexp // "ada-m on LinkedIn": no @, but not a plain word either
	inside  *regexp.Regexp // "LinkedIn (ada-m)"
	tweets  *regexp.Regexp
}

func newHandlePatterns() *handlePatterns {
	end := `(?:$|[^\w@/.-]|\.(?:$|\s)|-(?:$|\s))`
	return &handlePatterns{
		before: regexp.MustCompile(`(?i)(?:^|[^\w@/.-])` + serviceExpr + `(?:\s+(?:as|handle is|username is` +
			`|username|user name is|account is|account|handle|user|profile is|under|at|als|unter|comme|sous|como` +
			`|come|som|jako|pod|@)\s*:?\s+@?|\s*[(:]\s*@|\s+@|\s+(?:handle|username|user` +
			`|account)\s*[:=]\s*@?)` + handleExpr + end),
		after: regexp.MustCompile(`(?i)(?:^|[^\w@/.-])@` + handleExpr + `\s*(?:\s(?:on|at|in|via|auf|bei|en|sur` +
			`|su|no|na|op|på|på|w|в)\s+(?:the\s+)?|\s?[(\[]\s*(?:on\s+)?)` + serviceExpr + end),
		written: regexp.MustCompile(`(?i)(?:^|[^\w@/.-])(?:as|als|comme|como|come|som|jako|am|i['’]m` +
			`|is)\s+` + handleExpr + `\s+(?:on|at|auf|bei|en|sur|su|no|na|op|på|w)\s+` + serviceExpr + end),
		inside: regexp.MustCompile(`(?i)(?:^|[^\w@/.-])` + serviceExpr + `\s?[(\[]\s*` + handleExpr + `\s*[)\]]`),
		tweets: regexp.MustCompile(`(?i)\b(?:tweets|tweeting) (?:as|at|from|under) @(\w{2,30})`),
	}
}

// maxHandleText limits the part of a text that is searched for handles. Longer texts are rarely
// about one person.
const maxHandleText = 20_000

// findHandles finds handles next to the name of a service. A handle belongs to the nearest service
// name.
func (e *Extractor) findHandles(f *facts, v *view.View) {
	text := v.Text
	if len(text) > maxHandleText {
		end := maxHandleText
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	seen := map[int]bool{} // offsets of handles
	addHandle := func(service string, from, to int) {
		if seen[from] || to-from < 2 {
			return
		}
		seen[from] = true
		if platform := platformNamed(service); platform != "" {
			e.addUsername(f, platform, view.Part{View: v, Start: from, End: to}, stated)
		}
	}
	x := e.handles
	eachMatch := func(form *regexp.Regexp, use func(m []int)) {
		for at, n := 0, 0; at < len(text) && n < maxIdentifiers; n++ {
			m := form.FindStringSubmatchIndex(text[at:])
			if m == nil {
				return
			}
			for i := range m {
				if m[i] >= 0 {
					m[i] += at
				}
			}
			use(m)
			at = max(m[2], m[4], at+1) // matches may overlap
		}
	}
	eachMatch(x.after, func(m []int) { addHandle(text[m[4]:m[5]], m[2], m[3]) })
	eachMatch(x.before, func(m []int) { addHandle(text[m[2]:m[3]], m[4], m[5]) })
	eachMatch(x.written, func(m []int) {
		if h := text[m[2]:m[3]]; strings.ContainsAny(h, "-_0123456789") || h == strings.ToLower(h) && len(h) > 3 {
			addHandle(text[m[4]:m[5]], m[2], m[3])
		}
	})
	eachMatch(x.inside, func(m []int) {
		if strings.ContainsAny(text[m[4]:m[5]], "-_0123456789") {
			addHandle(text[m[2]:m[3]], m[4], m[5])
		}
	})
	lower := ""
	for i, a := range e.platforms.FindMentions(text) {
		if i == 0 {
			lower = strings.ToLower(text)
		}
		at := strings.Index(lower, strings.ToLower(a.Username))
		if at < 0 || at+len(a.Username) > len(text) || seen[at] {
			continue
		}
		e.addAccount(f, Identifier{Type: Account, Platform: a.Platform, Value: a.Username, Confidence: stated,
			Span: view.Part{View: v, Start: at, End: at + len(a.Username)}.Span()})
	}
	if m := x.tweets.FindStringSubmatchIndex(text); m != nil {
		e.addUsername(f, identity.Microblog, view.Part{View: v, Start: m[2], End: m[3]}, stated)
	}
}

// hiddenSigns, hiddenMail and hiddenDot match obfuscated addresses: "[at]", "(dot)".
var (
	hiddenSigns = regexp.MustCompile(`(?i)[\[({<]\s*(?:at|a|ät|arroba|arobase|@|kukac|chiocciola|snabela|małpa` +
		`|malpa|klammeraffe)\s*[\])}>]|\s(?:at|arroba|ät|arobase)\s|_at_`)
	hiddenMail = regexp.MustCompile(`(?i)(?:^|[\s:;,<"'(=])((?:[\p{L}\d][\p{L}\d_%+-]*(?:\.|\s?[\[({<]\s?(?:dot` +
		`|punkt|point|punto|ponto|\.)\s?[\])}>]\s?))*[\p{L}\d][\p{L}\d_%+-]*)` +
		`(?:\s?[\[({<]\s?(?:at|a|ät|arroba|arobase|@|kukac|chiocciola|snabela|małpa|malpa` +
		`|klammeraffe)\s?[\])}>]\s?|(\s(?:at|arroba|ät|arobase)\s|_at_))` +
		`([\p{L}\d-]+(?:(?:\s?[\[({<]\s?(?:dot|punkt|point|punto|ponto|\.)\s?[\])}>]\s?|\s(?:dot|punkt|punto|ponto` +
		`|point)\s|_dot_|\.)[\p{L}\d-]+)+)`)
	hiddenDot = regexp.MustCompile(`(?i)\s?[\[({<]\s?(?:dot|punkt|point|punto|ponto|\.)\s?[\])}>]\s?|\s(?:dot` +
		`|punkt|punto|ponto|point)\s|_dot_`)
)

// Limits of obfuscated addresses, and of the length of their lines.
const (
	maxHidden  = 20
	hiddenLine = 2000
)

// findObfuscatedEmails finds e-mail addresses with spelled-out signs: "ada [at] moreau [dot]
// example", "ada at moreau dot example".
func (e *Extractor) findObfuscatedEmails(f *facts, path, text string) {
	start, found := 0, 0
	for line := range strings.Lines(text) {
		at := start
		start += len(line)
		if len(line) > hiddenLine || found == maxHidden || !hiddenSigns.MatchString(line) {
			continue
		}
		for _, m := range hiddenMail.FindAllStringSubmatchIndex(line, 4) {
			host := line[m[6]:m[7]]
			if m[4] >= 0 && !hiddenDot.MatchString(host) { // "engineer at acme.example" is not an address
				continue
			}
			address := hiddenDot.ReplaceAllString(line[m[2]:m[3]], ".") + "@" + hiddenDot.ReplaceAllString(host, ".")
			e.addEmail(f, address, "", formed, view.Span{Path: path, Start: at + m[2], End: at + m[7]})
			found++
		}
	}
}
