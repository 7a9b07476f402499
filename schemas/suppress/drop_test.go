package suppress_test

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

func base64Of(sum [sha256.Size]byte) string { return base64.StdEncoding.EncodeToString(sum[:]) }

// Compares normalized forms and hashes with the values published by the platform (DROP technical
// specifications 1.2.0, Working with the data).
func TestDrop_EqualsPublishedVectors(t *testing.T) {
	email := func(v string) string {
		key, err := identity.NormalizeEmail(v)
		require.NoError(t, err, v)
		return key
	}
	for _, c := range []struct {
		standard       func(string) string
		in, want, hash string
	}{
		{suppress.DropName, "Juan Pablo", "juanpablo", "91hIbrbzNeqHs3o81O5yNrXUj7wDd2shvZ6THKi9qz8="},
		{suppress.DropName, "Martinez", "martinez", "2wRPGbwBNxhShjRczx8GfS2c4cjvs4NJskeWloUNtp8="},
		{suppress.DropDate, "July 4, 1776", "17760704", "skXYXxBER6HQTZ3rXSZH1wVGLQ054mS5rbR/bwvzy4I="},
		{suppress.DropZIP, "91790-3771", "91790", "2FPZucR4x7U8KlM+SFAX4LPGhwNz/PIZUCSUdDh0o/s="},
		{suppress.DropZIP, "M1B 1A1", "m1b1a", "n8L9q8mVeT6Xt9/EeUNiTukGDrkbPJ3DvOEx14uElxk="},
		{suppress.DropZIP, " 00712345", "71234", "aeNUYKh7Xw5sqpxSbSP9eOHsj6iXewbUyavv89DIuhQ="},
		{suppress.DropZIP, " 00300-9999", "300", "mDvWFLta/s5as7YCP3EUfNe2vCMU+dJ690IlQcZVg4k="},
		{email, "Anna.Smith@Domain.com", "anna.smith@domain.com", "KA18MT/ph6IHYjzT9zwETySDQyvSh87YuoSBpOQtkhE="},
		{email, "danielle.johnson12@example.com", "danielle.johnson12@example.com",
			"mKDnDvwF2inxrKcK1hJN2TRkxPfL6kzNNTtU12eH8Bw="},
		{suppress.DropPhoneNumber, "+1(415)555-9317", "4155559317", "vGM7y5n+hBXRSEAklhHDPCbysyNgYTmXdMcagGUOY8E="},
		{suppress.DropPhoneNumber, "+84(90)123 4567", "4901234567", "ptzVkgbv9DonwvPCHmXmJ2SEOaolSh37z3ZzY/Gmm+U="},
		{suppress.DropPhoneNumber, "+354(123)4567", "3541234567", "Btrzydf5K6ALAKKXJGFHSx7u5bDzHC9WlVYtpq1n2rY="},
		{suppress.DropPhoneNumber, "5551273811", "5551273811", "jr/RAWYVN+ODBf2vRxwBASPwiO4x27OGI1y3IDhcwLo="},
		{suppress.DropVIN, "1HGCM82633A004352", "1hgcm82633a004352", "iNswy1m+0VSt8jAfFrvaiQ1R/0HAbgSwNGkwqo6QBss="},
		{suppress.DropAdvertisingID, "a3f1c2d4-5678-90ab-cdef-1234567890ab", "a3f1c2d4567890abcdef1234567890ab",
			"250KY6lOgzYUB3EHrkbDCE2kMEZQE69SF38muhoDudI="},
		{suppress.DropTelevisionID, "SmartTV_9F8E7D6C", "smarttv9f8e7d6c",
			"d9fxuTIrKksBXYDlaWsvQbcyUUfCbUx7v78gd+KP+tc="},
	} {
		got := c.standard(c.in)
		require.Equal(t, c.want, got, c.in)
		require.Equal(t, c.hash, base64Of(suppress.Sum(got)), c.in)
	}
	require.Equal(t, "PQOfn1RffEKmqMmNAzDKKaoZCwxWbQZkQzPWmQo9REA=", base64Of(suppress.DropComposite(
		suppress.DropName("Danielle"), suppress.DropName("Johnson"), suppress.DropDate("July 4, 1985"),
		suppress.DropZIP("91790"))))
	require.Equal(t, "rtnDuXIe63jXYQQXW5r07GJ7lSsrib8+46QuKFwkOmk=", base64Of(suppress.DropComposite(
		suppress.DropName("Eve"), suppress.DropName("Genesis"), suppress.DropVIN("1HGCM82633A004352"))))
}

func TestDrop_NormalizesValues(t *testing.T) {
	for in, want := range map[string]string{
		"O'Brien": "obrien", "José": "jose", "Müller": "muller", "Иванов": "ivanov", "Ёлкина": "yolkina",
		"Щербакова": "shcherbakova",
		"Straße":    "strasse", "ŁUKASZ": "lukasz", "İzmir": "izmir", "田中": "田中", "김": "김", "محمد": "محمد",
		"שלום": "שלום", "キムラ": "キムラ",
		"  van  der  Berg ": "vanderberg", "Θεοδώρου": "theodoroy", "J. R. 2nd": "jr2nd", "...": "",
	} {
		require.Equal(t, want, suppress.DropName(in), in)
	}
	for in, want := range map[string]string{
		"1985-07-04": "19850704", "19850704": "19850704", "1985-07-04T00:00:00Z": "19850704", "7/4/1985": "19850704",
		"4 July 1985": "19850704",
		"1985":        "", "1985-07": "", "": "", "July": "",
	} {
		require.Equal(t, want, suppress.DropDate(in), in)
	}
	require.Empty(t, suppress.DropVIN("123"))
	require.Empty(t, suppress.DropAdvertisingID("zzf1c2d4-5678-90ab-cdef-1234567890ab"))
	require.Empty(t, suppress.DropTelevisionID("x"))
	require.Empty(t, suppress.DropZIP("0000"))
}

// Every list suppresses the record that has its identifier, and no other.
func TestDrop_ListSuppressesItsRecordOnly(t *testing.T) {
	raw := `{"profile_id":"p1","username":"danielle","first_name":"Danielle","last_name":"Johnson",` +
		`"last_updated":"2026","emails":["d@example.com"],` +
		`"date_of_birth":"1985-07-04","location":{"city":"West Covina","postal_code":"91790-1111"},` +
		`"mobile":["+84(90)123 4567"],` +
		`"vin":"1HGCM82633A004352","idfa":"a3f1c2d4-5678-90ab-cdef-1234567890ab","tv_id":"SmartTV_9F8E7D6C",` +
		`"experience":[{"company":{"phone":"5551273811"}}]}`
	danielle, other := decode(t, record.KindNetworkPerson, raw), decode(t, record.KindNetworkPerson, networkAda)
	for typ, sum := range map[suppress.Type][sha256.Size]byte{
		suppress.Email:     suppress.Sum("d@example.com"),
		suppress.DropPhone: suppress.Sum("4901234567"),
		suppress.DropNDZ:   suppress.DropComposite("danielle", "johnson", "19850704", "91790"),
		suppress.DropNameVIN: suppress.DropComposite("danielle", "johnson",
			"1hgcm82633a004352"),
		suppress.DropMAID:  suppress.Sum("a3f1c2d4567890abcdef1234567890ab"),
		suppress.DropCTVID: suppress.Sum("smarttv9f8e7d6c"),
	} {
		s := suppress.NewSet(key(t, 1))
		h := s.Key().Hash(typ, sum)
		require.NoError(t, s.Apply([]byte(h.String()), []byte(`{"type":"`+string(typ)+
			`","scope":"all","requested_at":"2026","key":"`+s.Key().ID()+`"}`)))
		by, hit := s.Record(danielle)
		require.True(t, hit, typ)
		require.Equal(t, h, by, typ)
		_, hit = s.Record(other)
		require.False(t, hit, typ)
	}
	s := suppress.NewSet(key(t, 1))
	put(t, s, suppress.DropPhone, "5551273811", suppress.Entry{})
	_, hit := s.Record(danielle)
	require.False(t, hit, "a company's number")
	_, hit = s.FindInDocument(identity.Default(), []byte(`{"phone":"(555) 127-3811"}`))
	require.True(t, hit)
}

func FuzzDropValues(f *testing.F) {
	f.Add([]byte(`{"first_name":"a","last_name":["b"],"dob":"1985-07-04","addresses":[{"zip":"1"},` +
		`[2]],"phones":[1,{"x":2}]}`))
	f.Fuzz(func(_ *testing.T, raw []byte) { suppress.DropValues(raw) })
}

// Everything that DropValues finds in a record is also found by a set, although only records with matching
// fields are parsed for it.
func TestDropValues_AreFoundBySet(t *testing.T) {
	const network, codehost = `{"profile_id":"p1","username":"ada","first_name":"Ada","last_name":"Lovelace",` +
		`"last_updated":"2026-11-20"`, `{"user_id":7,"codehost_username":"ada","last_updated":"2026-11-20"`
	for raw, kind := range map[string]record.Kind{
		network + `,"home_Phone":"+1 415 555 9317"}`:                             record.KindNetworkPerson,
		network + `,"ph\u006fne":"+1 415 555 9317"}`:                             record.KindNetworkPerson,
		network + `,"location":{"city":"London","phone":["4155559317"]}}`:        record.KindNetworkPerson,
		network + `,"address":{"location":{"phone":4155559317}}}`:                record.KindNetworkPerson,
		network + `,"DOB":"1815-12-10","zip":"91790"}`:                           record.KindNetworkPerson,
		network + `,"birthday":"1815-12-10","location":{"postal_code":"91790"}}`: record.KindNetworkPerson,
		network + `,"vins":["1HGCM82633A004352"]}`:                               record.KindNetworkPerson,
		network + `,"idfa":"a3f1c2d4-5678-90ab-cdef-1234567890ab"}`:              record.KindNetworkPerson,
		network + `,"maids":["a3f1c2d4-5678-90ab-cdef-1234567890ab"]}`:           record.KindNetworkPerson,
		network + `,"tv_id":"SmartTV_9F8E7D6C"}`:                                 record.KindNetworkPerson,
		codehost + `,"mobile":"+1 415 555 9317"}`:                                record.KindCodehostPerson,
		codehost + `,"location_canonical":{"advertising_id":` +
			`"a3f1c2d4-5678-90ab-cdef-1234567890ab"}}`: record.KindCodehostPerson,
		`{"user_id":"7","username":"ada","last_updated":"2026-11-20",` +
			`"ctv_id":"SmartTV_9F8E7D6C"}`: record.KindMicroblogPerson,
	} {
		r, err := record.Decode(kind, []byte(raw))
		require.NoError(t, err, raw)
		values := suppress.DropValues(r.JSON)
		require.NotEmpty(t, values, raw)
		for _, v := range values {
			s := suppress.NewSet(key(t, 1))
			entry, err := json.Marshal(suppress.Entry{Type: v.Type, Scope: suppress.All, RequestedAt: "2026-01-01",
				Key: s.Key().ID()})
			require.NoError(t, err)
			require.NoError(t, s.Apply([]byte(s.Key().Hash(v.Type, v.Sum).String()), entry))
			_, hit := s.Record(r)
			require.True(t, hit, "%s: %s", raw, v.Type)
		}
	}
}
