package place

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shown formats a place as "city | state | country code".
func shown(p Place) string {
	if p.IsZero() {
		return ""
	}
	return strings.Join([]string{p.City, p.State, p.CountryCode}, " | ")
}

// Expected places were written by hand. Texts without one name no place, or an ambiguous one.
func TestFind_ReadsPlacesAndNeverGuesses(t *testing.T) {
	for name, lines := range map[string]string{
		"city and country": `
Berlin, Germany => Berlin | Berlin | DE
Paris, France => Paris | Île-de-France | FR
Braga, Portugal => Braga | Braga | PT
Zürich/Switzerland => Zürich | Zurich | CH
Oslo, Norge => Oslo | Oslo | NO
Firenze, Italia => Florence | Tuscany | IT
Cambridge, UK => Cambridge | England | GB
Bergen, NL => Bergen | North Holland | NL
Nantes (France) => Nantes | Pays de la Loire | FR
Amsterdam, The Netherlands => Amsterdam | North Holland | NL
Kyiv, Ukraine => Kyiv | Kyiv City | UA
Buenos Aires, Argentina => Buenos Aires | Ciudad Autónoma de Buenos Aires | AR
Seoul, Korea => Seoul | Seoul | KR
Tbilisi, Georgia => Tbilisi | Tbilisi | GE
Berlin, DE => Berlin | Berlin | DE
Vancouver, CA => Vancouver | British Columbia | CA`,
		"city and state": `
Paris, TX => Paris | Texas | US
Cambridge, MA => Cambridge | Massachusetts | US
Portland, OR => Portland | Oregon | US
São Paulo - SP => São Paulo | São Paulo | BR
Bengaluru, KA, India => Bengaluru | Karnataka | IN
Atlanta, Georgia => Atlanta | Georgia | US
London, Ontario => London | Ontario | CA
Belo Horizonte/MG => Belo Horizonte | Minas Gerais | BR
Zürich, ZH => Zürich | Zurich | CH
Munich, Bayern, Deutschland => Munich | Bavaria | DE
Melbourne, VIC => Melbourne | Victoria | AU
Wilmington, DE => Wilmington | Delaware | US
Toronto, ON, Canada => Toronto | Ontario | CA
New York, NY => New York City | New York | US
Washington, DC => Washington | District of Columbia | US
Springfield, IL => Springfield | Illinois | US
Edinburgh, Scotland => Edinburgh | Scotland | GB
Lahore, Punjab, Pakistan => Lahore | Punjab | PK
Québec, QC => Québec | Quebec | CA
Monterrey, NL, Mexico => Monterrey | Nuevo León | MX`,
		"one city": `
Bergen => Bergen | Vestland | NO
Malmö => Malmö | Skåne | SE
Paris => Paris | Île-de-France | FR
London => London | England | GB
New York => New York City | New York | US
San Jose => San Jose | California | US
Birmingham => Birmingham | England | GB
Singapore => Singapore |  | SG
Hong Kong => Hong Kong |  | HK
Sofia => Sofia | Sofia-Capital | BG`,
		"other names": `
München => Munich | Bavaria | DE
NYC => New York City | New York | US
Nueva York => New York City | New York | US
Bangalore => Bengaluru | Karnataka | IN
Firenze => Florence | Tuscany | IT
Köln => Köln | North Rhine-Westphalia | DE
Cologne, Germany => Köln | North Rhine-Westphalia | DE
Wien, Österreich => Vienna | Vienna | AT
Saigon => Ho Chi Minh City | Ho Chi Minh City (HCMC) | VN
Saint Louis => St. Louis | Missouri | US
St. Petersburg, Russia => Saint Petersburg | St.-Petersburg | RU`,
		"other scripts": `
東京 => Tokyo | Tokyo | JP
日本東京 => Tokyo | Tokyo | JP
中国 上海 => Shanghai | Shanghai | CN
北京市 => Beijing | Beijing | CN
浙江杭州 => Hangzhou | Zhejiang | CN
서울 => Seoul | Seoul | KR
Москва => Moscow | Moscow | RU
Αθήνα => Athens | Attica | GR
القاهرة => Cairo | Cairo | EG`,
		"spelling": `
berlin, germany => Berlin | Berlin | DE
BERLIN => Berlin | Berlin | DE
malaga => Málaga | Andalusia | ES
Sao Paulo => São Paulo | São Paulo | BR
austin, tx => Austin | Texas | US
Austin TX => Austin | Texas | US
Sydney NSW Australia => Sydney | New South Wales | AU
sao paulo brasil => São Paulo | São Paulo | BR
Berlin 🇩🇪 => Berlin | Berlin | DE
Berlin 🐻 => Berlin | Berlin | DE
10115 Berlin => Berlin | Berlin | DE
SW1A 1AA London => London | England | GB
Montr&eacute;al => Montréal | Quebec | CA
USA, California, San Francisco => San Francisco | California | US
Based in Lisbon, Portugal => Lisbon | Lisbon | PT
İstanbul => Istanbul | Istanbul | TR
Łódź => Łódź | Łódź Voivodeship | PL`,
		"country or state alone": `
Deutschland =>  |  | DE
España =>  |  | ES
UK =>  |  | GB
USA =>  |  | US
U.S. =>  |  | US
Brasil =>  |  | BR
Россия =>  |  | RU
日本 =>  |  | JP
🇩🇪 =>  |  | DE
Texas =>  | Texas | US
Ontario =>  | Ontario | CA
Georgia, USA =>  | Georgia | US
England =>  | England | GB
Turkey =>  |  | TR
Luxembourg =>  |  | LU
Mexico =>  |  | MX
Washington State =>  | Washington | US
Quebec =>  | Quebec | CA`,
		"regions have no city": `
San Francisco Bay Area =>  | California | US
Greater Boston Area =>  | Massachusetts | US
Munich Metropolitan Area, Germany =>  | Bavaria | DE
Southern California =>  | California | US
Upstate New York =>  | New York | US
Silicon Valley =>  | California | US
Dallas-Fort Worth =>  | Texas | US
Delhi NCR =>  | Delhi | IN`,
		"Greater London is London": `
Greater London => London | England | GB`,
		"words next to a place": `
remote, Germany =>  |  | DE
Remote (Germany) =>  |  | DE
Paris (remote) => Paris | Île-de-France | FR
Remote in Canada =>  |  | CA
Somewhere in Germany =>  |  | DE
Berlin, Europe => Berlin | Berlin | DE
Xyzzy, Germany =>  |  | DE
Xyzzy, TX =>  | Texas | US
Xyzzy, London => London | England | GB
Hell, Norway =>  |  | NO`,
		"no place": `
Remote =>
remote =>
Earth =>
Planet Earth 🌍 =>
the internet =>
127.0.0.1 =>
localhost =>
she/her =>
he/him =>
Europe =>
EMEA =>
Worldwide =>
Everywhere =>
/dev/null =>
🌍 =>
Mars =>
Moon =>
UTC+1 =>
https://berlin.example =>
ann@berlin.example =>
Right behind you =>
Narnia =>
Gotham =>
Atlantis =>
null =>
N/A =>
home =>
~ =>
C:\Windows =>
in my head =>
Hogwarts =>
unknown =>`,
		"ordinary words need a country": `
Nice =>
Reading =>
Mobile =>
Of =>
Bath =>
Split =>
Man =>
Batman =>
Orange =>
Most =>
Island =>
Nice, France => Nice | Provence-Alpes-Côte d'Azur | FR
Reading, UK => Reading | England | GB
Mobile, AL => Mobile | Alabama | US
Split, Croatia => Split | Split-Dalmatia | HR
Bath, England => Bath | England | GB`,
		"codes alone": `
IN =>
DE =>
CA =>
TX =>
LA =>
Xyzzy, DE =>
remote, IN =>`,
		"ambiguous": `
Georgia =>
Punjab =>
Richmond, CA =>
Ontario, CA =>
Victoria =>
Washington =>  |  | US
Springfield => Springfield |  | US
Xyzzy, Cork =>`,
		"contradictions and several places": `
Paris, Germany =>
Lisbon, Spain =>
Berlin | Paris =>
Berlin & Paris =>
Berlin / Paris =>
Berlin → Paris =>
Berlin -> Paris =>
Berlin ✈ Tokyo =>
London, Paris, Tokyo =>
Germany / France =>
Berlin, Germany / Paris, France =>
🇩🇪🇫🇷 =>
Paris 🇩🇪 =>
formerly Berlin =>
from Berlin =>
near Berlin =>  | Berlin | DE`,
		"too long": `
a, b, c, d, e, f, g, h, i, Germany =>`,
	} {
		t.Run(name, func(t *testing.T) {
			for line := range strings.Lines(strings.TrimSpace(lines)) {
				text, want, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " =>")
				require.True(t, ok, line)
				require.Equal(t, strings.TrimPrefix(want, " "), shown(Default().Find(text)), "%q", text)
			}
		})
	}
}

func TestFind_CleansTexts(t *testing.T) {
	for text, want := range map[string]string{
		"Z\u00fcrich":             "Zürich | Zurich | CH",
		"Zu\u0308rich":            "Zürich | Zurich | CH",
		"  Berlin,\u00a0Germany ": "Berlin | Berlin | DE",
		"Berlin\u200b":            "Berlin | Berlin | DE",
		"🏴\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F": " | Scotland | GB",
		"":                             "",
		" , ":                          "",
		strings.Repeat("Berlin, ", 30): "",
	} {
		require.Equal(t, want, shown(Default().Find(text)), "%q", text)
	}
}

func TestFind_GivesEveryField(t *testing.T) {
	p := Default().Find("Bergen, Norway")
	require.Equal(t, Place{
		City: "Bergen", State: "Vestland", Country: "Norway", CountryCode: "NO", Continent: "Europe",
		Timezone: "Europe/Oslo",
		Latitude: 60.393, Longitude: 5.3242, HasCoordinates: true,
	}, p)
	require.Equal(t, "Bergen, Vestland, Norway", p.Label())
	require.Equal(t, "Berlin, Germany", Default().Find("Berlin").Label(), "no repetition")
	springfield := Default().Find("Springfield, USA")
	require.False(t, springfield.HasCoordinates, "a namesake has more than half its population")
}

func TestComplete_FillsInWhatFollows(t *testing.T) {
	for _, c := range []struct {
		name        string
		given, want Fields
	}{
		{
			"from city and country", Fields{City: "Braga", Country: "Portugal"},
			Fields{
				City: "Braga", State: "Braga",
				Country: "Portugal", CountryCode: "PT", Continent: "Europe", RawAddress: "Braga, Portugal",
			},
		},
		{
			"from text", Fields{RawAddress: "Malmö, Sweden"},
			Fields{
				City: "Malmö", State: "Skåne",
				Country: "Sweden", CountryCode: "SE", Continent: "Europe", RawAddress: "Malmö, Sweden",
			},
		},
		{
			"from city and code", Fields{City: "Sapporo", CountryCode: "JP"},
			Fields{
				City: "Sapporo", State: "Hokkaido",
				Country: "Japan", CountryCode: "JP", Continent: "Asia", RawAddress: "Sapporo, Japan",
			},
		},
		{
			"from city and state code", Fields{City: "Austin", State: "TX"},
			Fields{
				City: "Austin", State: "TX",
				Country: "United States", CountryCode: "US", Continent: "North America",
				RawAddress: "Austin, TX, United States",
			},
		},
		{
			"the given spelling is unchanged",
			Fields{City: "München", Country: "Deutschland", RawAddress: "München, Bayern"},
			Fields{
				City: "München", State: "Bavaria",
				Country: "Deutschland", CountryCode: "DE", Continent: "Europe", RawAddress: "München, Bayern",
			},
		},
		{
			"unknown city", Fields{City: "Xyzzy", Country: "Germany"},
			Fields{City: "Xyzzy", Country: "Germany", CountryCode: "DE", Continent: "Europe",
				RawAddress: "Xyzzy, Germany"},
		},
		{
			"unknown city, country in the text", Fields{City: "Xyzzy", RawAddress: "Xyzzy, Portugal"},
			Fields{
				City:    "Xyzzy",
				Country: "Portugal", CountryCode: "PT", Continent: "Europe", RawAddress: "Xyzzy, Portugal",
			},
		},
		{
			"city of another country", Fields{City: "Paris", Country: "Germany"},
			Fields{City: "Paris", Country: "Germany", CountryCode: "DE", Continent: "Europe",
				RawAddress: "Paris, Germany"},
		},
		{
			"text of another country", Fields{Country: "France", RawAddress: "Berlin, Germany"},
			Fields{Country: "France", CountryCode: "FR", Continent: "Europe", RawAddress: "Berlin, Germany"},
		},
		{"text of another city", Fields{City: "Berlin", RawAddress: "Paris, France"}, Fields{City: "Berlin",
			RawAddress: "Paris, France"}},
		{"two countries", Fields{Country: "Germany", CountryCode: "FR"}, Fields{Country: "Germany",
			CountryCode: "FR"}},
		{"another continent", Fields{City: "Berlin", Continent: "Asia"}, Fields{City: "Berlin", Continent: "Asia"}},
		{"an unknown country", Fields{City: "Berlin", Country: "Ruritania"}, Fields{City: "Berlin",
			Country: "Ruritania"}},
		{"no place", Fields{RawAddress: "Remote"}, Fields{RawAddress: "Remote"}},
		{"nothing", Fields{}, Fields{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Default().Complete(c.given)
			require.Equal(t, c.want, got)
			require.Equal(t, got, Default().Complete(got), "completing twice changes nothing")
		})
	}
}

func TestDefault_IsSmallAndWhole(t *testing.T) {
	require.Less(t, len(compressed), 1<<20)
	_, err := decode(compressed[:len(compressed)/2])
	require.Error(t, err)
	_, err = decode(nil)
	require.Error(t, err)
}

func FuzzFind(f *testing.F) {
	for _, s := range []string{"Berlin, Germany", "🇩🇪", "日本東京", "a\xffb", "(((", "St. Louis, MO", "🏴\U000E0067",
		"-", " - - "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := Default().Find(s)
		if p.City != "" || p.State != "" {
			require.NotEmpty(t, p.CountryCode)
		}
		Default().Complete(Fields{City: s, RawAddress: s})
	})
}

func BenchmarkFind(b *testing.B) {
	g := Default()
	texts := []string{
		"Berlin, Germany", "München", "Bengaluru, KA, India", "San Francisco, CA", "the internet", "Paris",
		"Zürich/Switzerland", "東京",
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		g.Find(texts[i%len(texts)])
	}
}

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decode(compressed); err != nil {
			b.Fatal(err)
		}
	}
}
