package record_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{
		"0001":                                 "0001-01-01T00:00:00Z",
		"2019":                                 "2019-01-01T00:00:00Z",
		"2019-05":                              "2019-05-01T00:00:00Z",
		"2020-02-29":                           "2020-02-29T00:00:00Z",
		"9999-12-31":                           "9999-12-31T00:00:00Z",
		"2026-01-02T03:04:05":                  "2026-01-02T03:04:05Z",
		"2026-01-02T03:04:05.25":               "2026-01-02T03:04:05.25Z",
		"2026-01-02T03:04:05Z":                 "2026-01-02T03:04:05Z",
		"2026-01-02T03:04:05.123456789Z":       "2026-01-02T03:04:05.123456Z",
		"2026-01-02T03:04:05+05:30":            "2026-01-01T21:34:05Z",
		"2026-01-01T00:30:00-01:00":            "2026-01-01T01:30:00Z",
		"9999-12-31T23:59:59.999999999Z":       "9999-12-31T23:59:59.999999Z",
		"1969-12-31T23:59:59.5Z":               "1969-12-31T23:59:59.5Z",
		"2026-01-02T03:04:05.0000000000000001": "2026-01-02T03:04:05Z",
	} {
		v, err := record.ParseVersion(in)
		require.NoError(t, err, in)
		require.Equal(t, want, v.String(), in)
		instant, err := time.Parse(time.RFC3339Nano, want)
		require.NoError(t, err)
		require.True(t, v.Time().Equal(instant), in)
		require.Equal(t, v, record.VersionOf(instant), in)
	}
	for _, in := range []string{
		"", " ", "20", "202", "20199", "0000", "-2019", "+2019", "19-05", "2019-5", "2019-00", "2019-13", "2019-05-00",
		"2019-02-29", "2019-05-32", "2019-05-1", "2019/05/01", "05/2019", "2019-W05", "2019-123", "2019-05-01T", "2019-05-01T10",
		"2019-05-01T10:00", "2019-05-01T24:00:00Z", "2019-05-01T10:60:00Z", "2019-05-01T10:00:61Z", "2019-05-01 10:00:00",
		"2019-05-01T10:00:00+0100", "2019-05-01T10:00:00+25:00", "2019-05-01T10:00:00+24:00", "2019-05-01T10:00:00-23:60",
		"2019-05-01T1:00:00.5Z", "2019-05-01T1:00:00+01:00", "2019-05-01t10:00:00Z", "2019-05-01T10:00:00z", "2019-05-01T10:00:00.", "2019-05-01T10:00:00,5Z", "2019-05-01T10:00:00ZZ",
		"0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "Present", "present", "now", "May 2019", "２０１９", "1767225600",
		"2019-05-01T10:00:00.11111111111111111111111111111111111111111111Z",
	} {
		_, err := record.ParseVersion(in)
		require.Error(t, err, "%q", in)
	}
}

func TestVersionsAreOrderedLikeTime(t *testing.T) {
	var last record.Version = -1
	for _, in := range []string{
		"0001", "0001-02", "1969-12-31T23:59:59.999999Z", "1970", "2019", "2019-01-01T00:00:00.000001Z", "2019-01-02", "2019-02", "9999-12-31T23:59:59.999999Z",
	} {
		v, err := record.ParseVersion(in)
		require.NoError(t, err, in)
		require.Greater(t, v, last, in)
		last = v
	}
	first, err := record.ParseVersion("0001-01-01T00:00:00Z")
	require.NoError(t, err)
	require.Zero(t, first)
	second, err := record.ParseVersion("0001-01-01T00:00:01.000002Z")
	require.NoError(t, err)
	require.Equal(t, record.Version(1_000_002), second, "microseconds")
}

func TestPartialDateFull(t *testing.T) {
	for in, want := range map[record.PartialDate]string{
		"": "", "2019": "2019-01-01", "2019-05": "2019-05-01", "2019-05-06": "2019-05-06", "2019-05-06T07:08:09Z": "2019-05-06",
	} {
		require.Equal(t, want, in.Full())
	}
	for in, want := range map[record.PartialDate]string{
		"": "", "2019": "2019-01-01T00:00:00Z", "2019-05": "2019-05-01T00:00:00Z", "2019-05-06": "2019-05-06T00:00:00Z",
		"2019-05-06T07:08:09": "2019-05-06T07:08:09Z", "2019-05-06T07:08:09.5": "2019-05-06T07:08:09.5Z",
		"2019-05-06T07:08:09Z": "2019-05-06T07:08:09Z", "2019-05-06T07:08:09.000+05:30": "2019-05-06T07:08:09.000+05:30",
	} {
		require.Equal(t, want, in.Timestamp())
	}
	_, ok := record.PartialDate("").Version()
	require.False(t, ok)
	v, ok := record.PartialDate("2019-05").Version()
	require.True(t, ok)
	require.Equal(t, "2019-05-01T00:00:00Z", v.String())
}

func FuzzParseVersion(f *testing.F) {
	for _, seed := range []string{"2019", "2019-05", "2019-05-06", "2026-01-02T03:04:05", "2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05+05:30", "0001", "9999-12-31T23:59:59.999999999Z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := record.ParseVersion(s)
		if err != nil {
			return
		}
		again, err := record.ParseVersion(v.String())
		require.NoError(t, err, "%q gave %s", s, v)
		require.Equal(t, v, again)
		require.GreaterOrEqual(t, v, record.Version(0))
		require.Equal(t, v, record.VersionOf(v.Time()))
		// The standard library is the oracle for whole timestamps.
		if instant, err := time.Parse(time.RFC3339Nano, s); err == nil {
			require.True(t, v.Time().Equal(instant.Truncate(time.Microsecond)), s)
		}
	})
}
