package record_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

func TestParseVersion_AcceptsDatesOnly(t *testing.T) {
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
		"2019-02-29", "2019-05-32", "2019-05-1", "2019/05/01", "05/2019", "2019-W05", "2019-123", "2019-05-01T",
		"2019-05-01T24:00:00Z", "2019-05-01T10:60:00Z", "2019-05-01T10:00:61Z",
		"2019-05-01T10:00:00+25:00", "2019-05-01T10:00:00+24:00", "2019-05-01T10:00:00-23:60",
		"2019-05-01T1:00:00.5Z", "2019-05-01T1:00:00+01:00", "2019-05-01T10:00:00.", "2019-05-01T10:00:00ZZ",
		"0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "Present", "present", "now", "May 2019", "２０１９",
		"1767225600",
		"2019-05-01T10:00:00.11111111111111111111111111111111111111111111Z",
	} {
		_, err := record.ParseVersion(in)
		require.Error(t, err, "%q", in)
	}
}

// Output is RFC 3339 with the given fraction digits and offset.
func TestNormalizeDate_ReadsWhatProgramsWrite(t *testing.T) {
	for in, want := range map[string]string{
		"2024":                                "2024",
		"2024-01":                             "2024-01",
		"2024-01-02":                          "2024-01-02",
		"20240102":                            "2024-01-02",
		"2024-01-02T13:05:00Z":                "2024-01-02T13:05:00Z",
		"2024-01-02T13:05:00+00:00":           "2024-01-02T13:05:00+00:00",
		"2024-01-02T13:05:00":                 "2024-01-02T13:05:00Z",
		"2024-01-02t13:05:00z":                "2024-01-02T13:05:00Z",
		"2024-01-02 13:05:00":                 "2024-01-02T13:05:00Z",
		"2024-01-02 13:05:00Z":                "2024-01-02T13:05:00Z",
		"2024-01-02 13:05":                    "2024-01-02T13:05:00Z",
		"2024-01-02T13:05":                    "2024-01-02T13:05:00Z",
		"2024-01-02T13":                       "2024-01-02T13:00:00Z",
		"2024-01-02T13:05Z":                   "2024-01-02T13:05:00Z",
		"2024-01-02T15:05+02:00":              "2024-01-02T15:05:00+02:00",
		"2024-01-02T15:05:00+0200":            "2024-01-02T15:05:00+02:00",
		"2024-01-02T07:35:00-0530":            "2024-01-02T07:35:00-05:30",
		"2024-01-02 13:05:00+00:00":           "2024-01-02T13:05:00Z",
		"2024-01-02 15:05:00+02:00":           "2024-01-02T15:05:00+02:00",
		"2024-01-02 13:05:00+00":              "2024-01-02T13:05:00Z",
		"2024-01-02 18:35:00+05:30":           "2024-01-02T18:35:00+05:30",
		"2024-01-02 13:05:00.123456+00":       "2024-01-02T13:05:00.123456Z",
		"2024-01-02 13:05:00.1":               "2024-01-02T13:05:00.1Z",
		"2024-01-02T13:05:00,25Z":             "2024-01-02T13:05:00.25Z",
		"2024-01-02 13:05:00.123456 UTC":      "2024-01-02T13:05:00.123456Z",
		"2024-01-02 13:05:00 UTC":             "2024-01-02T13:05:00Z",
		"2024-01-02 15:05:00 +0200":           "2024-01-02T15:05:00+02:00",
		"2024-01-02 13:05:00 +0000 UTC":       "2024-01-02T13:05:00Z",
		"2024-01-02 15:05:00.5 +0200 CEST":    "2024-01-02T15:05:00.5+02:00",
		"20240102T130500Z":                    "2024-01-02T13:05:00Z",
		"20240102T1305+0100":                  "2024-01-02T13:05:00+01:00",
		"2016-12-31T23:59:60Z":                "2017-01-01T00:00:00Z",
		"2017-01-01 05:29:60.5+05:30":         "2017-01-01T00:00:00.5Z",
		"1890-01-01 00:00:00+00:53:28":        "1889-12-31T23:06:32Z",
		"1890-01-01 00:00:00-00:01:15":        "1890-01-01T00:01:15Z",
		"2024-01-02T13:05:00.123456789+05:30": "2024-01-02T13:05:00.123456789+05:30",
	} {
		got, err := record.NormalizeDate(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
		again, err := record.NormalizeDate(got)
		require.NoError(t, err, in)
		require.Equal(t, got, again)
		v, err := record.ParseVersion(in)
		require.NoError(t, err, in)
		same, err := record.ParseVersion(want)
		require.NoError(t, err, in)
		require.Equal(t, same, v, in)
	}
	for _, in := range []string{
		"02.01.2024 13:05", "June 1, 2024", "1 June 2024", "01/02/2024", "2024/01/02", "2024-1-2", "2024-01-02  13:05",
		"2024-01-02 25:00",
		"2024-01-02 13:05 PM", "2024-01-02 13:05:00 Europe/Berlin", "2024-0102", "202401-02", "20241301",
		"2024-02-30 10:00", "infinity", "1704200700",
		"2024-01-02 13:05:00+24", "2024-01-02 13:05:00+0260", "2024-01-02T13:05:00+02:00:60", "2024-01-02 13:05:00 BC",
		"2024-01-02 13:05:00+00 ", "24-01-02",
	} {
		_, err := record.NormalizeDate(in)
		require.Error(t, err, in)
		_, err = record.ParseVersion(in)
		require.Error(t, err, in)
	}
}

// Dates of known fields are normalized at any depth.
func TestDecode_NormalizesDates(t *testing.T) {
	raw := `{"profile_id":"p","username":"u","last_updated":"2024-01-02 13:05:00.123456+00",` +
		`"x":{"at":"2024-01-02 10:00"},` +
		`"experience":[{"start":"2019-05","end":"2020-06-01 08:00:00"}],` +
		`"education":[{"start":"2020-06-01T08:00+0200"}]}`
	r, err := record.Decode(record.KindNetworkPerson, []byte(raw))
	require.NoError(t, err)
	require.Equal(t, `{"profile_id":"p","username":"u","last_updated":"2024-01-02T13:05:00.123456Z",`+
		`"x":{"at":"2024-01-02 10:00"},`+
		`"experience":[{"start":"2019-05","end":"2020-06-01T08:00:00Z"}],`+
		`"education":[{"start":"2020-06-01T08:00:00+02:00"}]}`, string(r.JSON))
	require.Equal(t, "2024-01-02T13:05:00.123456Z", r.VersionText)
	again, err := record.Decode(record.KindNetworkPerson, r.JSON)
	require.NoError(t, err)
	require.Equal(t, r, again)

	repo, err := record.Decode(record.KindCodehostPerson,
		[]byte(`{"user_id":1,"codehost_username":"u","last_updated":"2024","repos":[{"id":2,`+
			`"updated_at":"2024-01-02 13:05"}]}`))
	require.NoError(t, err)
	parts, bad := repo.SplitEmbedded()
	require.Empty(t, bad)
	require.Equal(t, "2024-01-02T13:05:00Z", parts[0].VersionText)
}

func TestObserved_ReturnsTheInstantOfEvidence(t *testing.T) {
	for version, want := range map[string]string{
		"1970-01-01T00:28:34.979289Z": "2024-05-06T07:08:09Z",
		"1970-01-01T00:59:59.999999Z": "2084-01-29T15:59:59Z",
		"1970-01-01":                  "1970-01-01",
		"1970-01-01T01:00:00Z":        "1970-01-01T01:00:00Z",
		"2026-02-01":                  "2026-02-01",
		"1969-12-31T23:59:59Z":        "1969-12-31T23:59:59Z",
		"x":                           "x",
	} {
		require.Equal(t, want, record.Observed(version), version)
	}
}

func TestVersion_IsOrderedLikeTime(t *testing.T) {
	var last record.Version = -1
	for _, in := range []string{
		"0001", "0001-02", "1969-12-31T23:59:59.999999Z", "1970", "2019", "2019-01-01T00:00:00.000001Z", "2019-01-02",
		"2019-02", "9999-12-31T23:59:59.999999Z",
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

func TestPartialDate_IsCompleted(t *testing.T) {
	for in, want := range map[record.PartialDate]string{
		"": "", "2019": "2019-01-01", "2019-05": "2019-05-01", "2019-05-06": "2019-05-06",
		"2019-05-06T07:08:09Z": "2019-05-06",
	} {
		require.Equal(t, want, in.Full())
	}
	for in, want := range map[record.PartialDate]string{
		"": "", "2019": "2019-01-01T00:00:00Z", "2019-05": "2019-05-01T00:00:00Z", "2019-05-06": "2019-05-06T00:00:00Z",
		"2019-05-06T07:08:09": "2019-05-06T07:08:09Z", "2019-05-06T07:08:09.5": "2019-05-06T07:08:09.5Z",
		"2019-05-06T07:08:09Z":          "2019-05-06T07:08:09Z",
		"2019-05-06T07:08:09.000+05:30": "2019-05-06T07:08:09.000+05:30",
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
	for _, seed := range []string{"2019", "2019-05", "2019-05-06", "2026-01-02T03:04:05", "2026-01-02T03:04:05.123Z",
		"2026-01-02T03:04:05+05:30", "0001", "9999-12-31T23:59:59.999999999Z"} {
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
