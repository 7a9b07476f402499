package source_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParquet_ReadsFilesOfOtherLibraries(t *testing.T) {
	for name, row := range map[string]func(i int) string{
		// Columns of pandas categories. fastparquet 2026.9.0 omits the end of the last group of
		// indices and appends zeros.
		"fastparquet": func(i int) string {
			s := fmt.Sprintf(`{"n":%d,"c":"category %d"`, i, i*7%300)
			if i%7 != 0 {
				s += fmt.Sprintf(`,"o":"category %d"`, i*11%300)
			}
			return s + "}"
		},
		// Booleans as runs of any length, which the library reads as runs of eight. PyArrow writes
		// them in pages of version 2.
		"arrow-booleans": func(i int) string {
			s := fmt.Sprintf(`{"n":%d,"b":%t`, i, i < 13 || i > 900 || i%3 == 0)
			if i%7 != 0 {
				s += fmt.Sprintf(`,"o":%t`, i < 50 || i%5 == 0)
			}
			return s + "}"
		},
		// Encodings that PyArrow uses only on request.
		"arrow-differences": func(i int) string {
			s := fmt.Sprintf(`{"n":%d,"i":%d`, i, (1-i%2*2)*i*i*i)
			if i%7 != 0 {
				s += fmt.Sprintf(`,"s":"beginning %d %d"`, i/10, i)
			}
			return s + fmt.Sprintf(`,"l":"text %d","d":%v,"x":"%04d"}`, i, float64(i)/8, i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
			require.NoError(t, err)
			got, err := readParquet(t, data)
			require.ErrorIs(t, err, io.EOF)
			require.Len(t, got, 1003)
			for i, o := range got {
				require.JSONEq(t, row(i), o.text)
			}
		})
	}
}
