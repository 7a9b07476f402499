package main

import "strings"

// Tables by hand, one "place=name|name" a line. A place may have several lines.

// betterCountries are usual names of countries that GeoNames has under another name.
const betterCountries = `
NL=Netherlands
AX=Åland Islands
BL=Saint Barthélemy
BQ=Bonaire, Sint Eustatius and Saba
CW=Curaçao
RE=Réunion
ST=São Tomé and Príncipe
TL=Timor-Leste
PS=Palestine
`

// betterStates is the same for states, by their code in GeoNames.
const betterStates = `
DE.16=Berlin
DE.01=Baden-Württemberg
DE.08=Rhineland-Palatinate
ES.54=Castilla-La Mancha
ES.55=Castilla y León
AR.05=Córdoba
AR.24=Tucumán
AR.07=Ciudad Autónoma de Buenos Aires
`

// countryNames are names of countries that the sources lack.
const countryNames = `
US=USA|U.S.|U.S.A.|United States of America|Estados Unidos de América|America, United States|EEUU|EE UU|EUA
US=The US|The USA|The United States
GB=UK|U.K.|Great Britain|Britain|United Kingdom of Great Britain and Northern Ireland|The UK|The United Kingdom
KR=Korea|Republic of Korea|Korea, Republic of|Korea South|S Korea|ROK
KP=DPRK
CN=PRC|People's Republic of China|Mainland China|P.R. China|PR China|China PRC|中华人民共和国
NL=Holland|The Netherlands|Nederland|Niederlande
AE=UAE|U.A.E.|Emirates
CZ=Czech Republic|Česká republika
RU=Russian Federation
VN=Viet Nam
TR=Türkiye|Turkiye|Republic of Turkey|Turkey
MM=Burma
CI=Côte d'Ivoire
CV=Cape Verde
SZ=Swaziland
MK=Macedonia
IR=Islamic Republic of Iran|Iran, Islamic Republic of|Persia
SY=Syrian Arab Republic
TW=Taiwan, Province of China|ROC Taiwan|臺灣|台湾
TZ=United Republic of Tanzania
MD=Republic of Moldova
BO=Plurinational State of Bolivia
VE=Bolivarian Republic of Venezuela
LA=Lao PDR
PS=State of Palestine
CD=DR Congo|DRC|Congo Kinshasa
CG=Congo Brazzaville
IE=Republic of Ireland|Éire|Eire
BA=Bosnia|Bosnia & Herzegovina|Bosnia-Herzegovina|BiH
DE=Deutschland|Federal Republic of Germany|BRD|GER
ES=España|Espana
BR=Brasil
JP=日本|Nippon
IT=Italia
CH=Schweiz|Suisse|Svizzera|Swiss|SUI
AT=Österreich|Oesterreich
DK=Danmark|DEN
NO=Norge|Noreg
SE=Sverige
FI=Suomi
PT=POR
GR=Hellas|Ellada
HR=Hrvatska|CRO
SI=Slovenija|SLO
IN=Bharat|Republic of India|IND
ZA=RSA|Suid-Afrika
NZ=NZ|Aotearoa
LK=Ceylon
PH=The Philippines|Pilipinas
HK=Hong Kong SAR|HKSAR|Hong Kong, China
MO=Macau|Macau SAR
MX=Méjico|México
BY=Belorussia
KZ=Kazakstan
BS=The Bahamas
GM=The Gambia
MV=The Maldives
SG=Republic of Singapore
UA=The Ukraine
SA=KSA|Kingdom of Saudi Arabia
TH=ประเทศไทย
`

// stateNames are names of states that the sources lack. Those of up to three capital letters are codes.
const stateNames = `
US.DC=Washington DC|Washington, D.C.|D.C.|District of Columbia
US.CA=Calif|Cali
US.MA=Mass
US.PA=Penna
GB.ENG=England
GB.SCT=Scotland|Alba
GB.WLS=Wales|Cymru
GB.NIR=Northern Ireland|N Ireland|N. Ireland
CA.10=QC|Québec|PQ
CA.08=ON|Ont
CA.02=BC|B.C.
CA.01=AB|Alta
CA.03=MB
CA.07=NS
CA.04=NB
CA.11=SK
AU.02=NSW
AU.07=VIC
AU.04=QLD
AU.08=WA
AU.05=SA
AU.06=TAS
AU.01=ACT
AU.03=NT
IN.19=KA
IN.40=TG|TS|Telangana
IN.36=UP
IN.16=MH
IN.25=TN
IN.28=WB
IN.07=DL|NCT of Delhi|NCT
IN.02=AP
IN.13=KL
IN.09=GJ|Gujarat
IN.10=HR
IN.24=RJ
IN.35=MP
IN.23=PB|Punjab
BR.27=SP
BR.21=RJ
BR.15=MG
BR.26=SC
BR.23=RS
BR.18=PR
BR.30=PE
BR.05=BA
BR.06=CE
BR.07=DF|Distrito Federal
BR.29=GO
DE.02=Bayern|BY
DE.07=NRW|NW|Nordrhein-Westfalen
DE.01=BaWü|BW|Baden-Württemberg
MX.09=CDMX|Ciudad de México
JP.40=Tokyo-to
DE.15=Thüringen|TH
DE.14=Sachsen-Anhalt|ST
DE.13=Sachsen|SN
DE.08=Rheinland-Pfalz
DE.06=Niedersachsen|NI
DE.05=Hessen|HE
IT.15=Sicilia
IT.14=Sardegna
IT.16=Toscana
IT.13=Puglia
IT.12=Piemonte
IT.10=Marche
IT.09=Lombardia
IT.02=Basilicata
IT.19=Valle d'Aosta
IT.07=Latium
IT.06=Friuli-Venezia Giulia|Friuli
IT.17=Trentino
ES.32=Navarra
ES.52=Aragón
ES.53=Canarias|Islas Canarias
ES.07=Baleares|Illes Balears
ES.60=Comunidad Valenciana|Comunitat Valenciana|Valencian Community
ES.31=Región de Murcia
ES.34=Principado de Asturias
AT.09=Wien
AT.07=Tirol
AT.06=Steiermark
AT.04=Oberösterreich
AT.03=Niederösterreich
AT.02=Kärnten
NL.11=Zuid-Holland
NL.07=Noord-Holland
NL.06=Noord-Brabant|Brabant
NL.02=Fryslân
BE.VLG=Vlaanderen
BE.WAL=Wallonie
BE.BRU=Bruxelles-Capitale|Brussels-Capital Region
DK.17=Hovedstaden|Region Hovedstaden|Capital Region of Denmark
DK.18=Midtjylland
DK.19=Nordjylland
DK.20=Sjælland
DK.21=Syddanmark
PL.78=Mazowieckie|Masovia|Masovian
PL.77=Małopolskie|Małopolska
PL.72=Dolnośląskie
PL.82=Pomorskie
PL.83=Śląskie
PL.86=Wielkopolskie|Wielkopolska
PL.74=Łódzkie
FR.53=Bretagne
FR.28=Normandie
FR.75=Nouvelle-Aquitaine
FR.93=PACA|Provence
FR.94=Corse
PT.14=Lisboa
PT.23=Açores
RU.48=Московская область
IN.21=Orissa
IN.22=Pondicherry
IN.39=Uttaranchal
SE.26=Stockholms län|Stockholm County
SE.28=Västra Götalands län|Västra Götaland County
CA.05=NL|Newfoundland
CA.09=PEI|PE
ZA.06=GP
ZA.11=WC
ZA.02=KZN
FR.11=IDF|Île de France
ES.56=Catalunya|Cataluña
ES.59=Euskadi|País Vasco
ES.51=Andalucía
ES.29=Comunidad de Madrid
MX.19=NL|NLE
MX.14=JAL
CN.02=浙江
CN.30=广东|廣東
CN.04=江苏|江蘇
CN.32=四川
CN.12=湖北
CN.11=湖南
CN.25=山东|山東
CN.09=河南
CN.10=河北
CN.07=福建
CN.01=安徽
CN.26=陕西|陝西
CN.24=山西
CN.19=辽宁|遼寧
CN.08=黑龙江
CN.05=吉林
CN.03=江西
CN.29=云南|雲南
CN.18=贵州
CN.31=海南
`

// regionNames are regions of states.
const regionNames = `
US.CA=San Francisco Bay Area|SF Bay Area|Bay Area|Bay Area, CA|Silicon Valley|SoCal|NorCal
US.CA=Orange County, California|East Bay|South Bay
US.NY=Upstate New York|Long Island|NY Metro
US.VA=NoVA
US.TX=Dallas-Fort Worth|DFW|Dallas Fort Worth Metroplex
US.MN=Twin Cities|Minneapolis-St. Paul
US.NC=Research Triangle|Raleigh-Durham
IN.07=Delhi NCR|NCR
`

// cityNames are names of cities that count as much as the main ones, by city and country.
const cityNames = `
New York City, US=NYC|N.Y.C.|New York|New York City|Nueva York|NY City
Los Angeles, US=L.A.|LA|Los Angeles
San Francisco, US=SF|S.F.|San Fran
Washington, US=Washington DC|Washington, D.C.|DC|D.C.|Washington
London, GB=Greater London|Inner London|London
Mexico City, MX=CDMX|Ciudad de México|Mexico DF|DF México
Philadelphia, US=Philly
Las Vegas, US=Vegas
Ho Chi Minh City, VN=Saigon|HCMC|TP HCM|TPHCM|Sài Gòn|Ho Chi Minh
Kuala Lumpur, MY=KL
São Paulo, BR=Sampa
Rio de Janeiro, BR=Rio|RJ
Bengaluru, IN=Bangalore|Bengaluru|BLR|Bengalore
Gurgaon, IN=Gurugram
Frankfurt am Main, DE=Frankfurt|Frankfurt/Main|Frankfurt a.M.|Frankfurt am Main
Newcastle upon Tyne, GB=Newcastle
Québec, CA=Québec City|Ville de Québec
New Delhi, IN=New Delhi
St. Petersburg, RU=Saint Petersburg|SPb|Petersburg|Sankt-Peterburg
Saint Petersburg, RU=SPb|Petersburg
Buenos Aires, AR=CABA|Capital Federal
Tel Aviv, IL=Tel Aviv|Tel-Aviv Yafo|TLV
Kyiv, UA=Kiev|Kyiv
Köln, DE=Cologne|Koeln
Salt Lake City, US=SLC
Prague, CZ=Praha
Copenhagen, DK=København|Kobenhavn|CPH
Amsterdam, NL=Adam
Mumbai, IN=Bombay
Kolkata, IN=Calcutta
Chennai, IN=Madras
Pune, IN=Poona
The Hague, NL=Den Haag|'s-Gravenhage
Geneva, CH=Genève|Genf|Ginevra
Basel, CH=Bâle|Basle
Lucerne, CH=Luzern
Luzern, CH=Lucerne
Bern, CH=Berne
Zürich, CH=Zurich|Zuerich
Brugge, BE=Bruges
Gent, BE=Ghent|Gand
Antwerpen, BE=Antwerp|Anvers
Leuven, BE=Louvain
`

// languages are those in which countries are also written.
const languages = `
en de fr es pt it nl sv da no nb fi is pl cs sk hu ro tr ru uk el ar he fa hi bn ta te th vi id ms fil ja ko
zh zh-Hant ca eu gl hr sr bg mk sq sl lt lv et ga cy mt ka hy az kk uz ur ne si sw af bs be mn km
`

// weakNames are accepted only with a country or state, although they are not in the list of words, or are large cities.
const weakNames = `
batman|van|mesa|man|tamale|aba|pest|serra|carrefour|warder|nada|victoria|gaia|terra|tierra|erde|terre|mundo|casa
atlantis|gotham|eden|el dorado|eldorado|olympus|olimpo|zion|utopia|valhalla|asgard|babylon|sparta|narnia|hell
paradise|heaven|jersey|rio|df|la|sf|dc|kl|adam|blr|buda|ga|somewhere|home|here|there|everywhere|nowhere|internet
cyberspace|online|web|cloud|server|matrix|mars|moon|venus|jupiter|saturn|pluto|sol|sun|universe|metaverse
hogwarts|springfield usa|city|town|village|stadt|kota|capital|center|centre|downtown|midtown|uptown|union
university|campus|school|office|lab|of|same|most|date|male|mary|ann|nancy|kara|victoria city|santa|maria|san
santo|los|las|el|al|le|da|de|von|der|di|del|america|asia|africa|amerika|new|old|north|south|east|west|central
upper|lower|inner|outer|greater|big|small|red|blue|green|black|white|good|god|life|love|time|day|night|java
python|ruby|rust|go|swift|scala|julia|perl|cali|mass|orange county|island|islands|marina|beach|park|garden|lake
river|mountain|valley|forest|ocean|sea
`

// strongNames are accepted alone although they are words.
const strongNames = `
bergen|bologna|florence|geneva|oxford|bristol|bordeaux|toledo|gent|limerick|york|trier|delft|rennes|rouen|modena
brindisi|cremona|faro|saskatoon|kitchener|madison|anchorage|wellington|varna|derby|worcester|yonkers|cairns
charleston|telford|canterbury|hastings|luzern|bethesda|baguio|akita|sakai|mons|paisley|waterloo|bath uk|geneve
usa|uk|uae|nyc|nippon|brasil|osaka|kyoto|madras|peking|cologne|havana|tangier|cordoba|leghorn|us|prc|nz|holland
chile|peru|china|turkey|cuba|mali|niger|oman|india|japan|jordan|chad|togo|malta|guinea|brunei|cyprus|england
wales|scotland|ohio|maine|texas|florida|alabama|virginia|california|roma|wien|marseilles|cochin|mecca|frankfurt
munster|cologne|kiev|vegas|quebec
`

// entries calls do with each name of a table.
func entries(table string, do func(place, name string)) {
	for line := range strings.Lines(table) {
		where, names, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		for name := range strings.SplitSeq(names, "|") {
			do(where, name)
		}
	}
}

// lookup returns the name of a place in a table, "" for none.
func lookup(table, wanted string) (found string) {
	entries(table, func(place, name string) {
		if place == wanted {
			found = name
		}
	})
	return found
}

// contains reports whether a list of names has a name.
func contains(list, name string) bool {
	return strings.Contains("|"+strings.ReplaceAll(list, "\n", "|")+"|", "|"+name+"|")
}

// addByHand adds the names of the tables.
func (b *builder) addByHand() {
	entries(countryNames, func(code, name string) {
		if i, ok := b.country[code]; ok {
			b.add(name, countryName, i)
		}
	})
	entries(stateNames, func(code, name string) {
		i, ok := b.state[code]
		switch {
		case !ok:
		case len(name) <= 3 && strings.ToUpper(name) == name:
			b.add(name, stateCode, i)
		default:
			b.add(name, stateName, i)
		}
	})
	entries(regionNames, func(code, name string) {
		if i, ok := b.state[code]; ok {
			b.add(name, regionName, i)
		}
	})
	entries(cityNames, func(where, name string) {
		city, code, _ := strings.Cut(where, ", ")
		for i := range b.cities {
			if b.cities[i].Name == city && b.cities[i].Country == code {
				b.add(name, cityName, i)
				return
			}
		}
	})
}
