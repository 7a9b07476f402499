package lexicon

// statesText lists states, provinces and constituent countries, which follow a city.
const statesText = `
AL
AK
AZ
AR
CA
CO
CT
DE
FL
GA
HI
ID
IL
IN
IA
KS
KY
LA
ME
MD
MA
MI
MN
MS
MO
MT
NE
NV
NH
NJ
NM
NY
NC
ND
OH
OK
OR
PA
RI
SC
SD
TN
TX
UT
VT
VA
WA
WV
WI
WY
DC
D.C.
Alabama
Alaska
Arizona
Arkansas
California
Colorado
Connecticut
Delaware
Florida
Hawaii
Idaho
Illinois
Indiana
Iowa
Kansas
Kentucky
Louisiana
Maine
Maryland
Massachusetts
Michigan
Minnesota
Mississippi
Missouri
Montana
Nebraska
Nevada
New Hampshire
New Jersey
New Mexico
North Carolina
North Dakota
Ohio
Oklahoma
Oregon
Pennsylvania
Rhode Island
South Carolina
South Dakota
Tennessee
Texas
Utah
Vermont
Virginia
West Virginia
Wisconsin
Wyoming
Ontario
Quebec
Québec
British Columbia
Alberta
Manitoba
Saskatchewan
Nova Scotia
ON
QC
BC
AB
England
Scotland
Wales
Northern Ireland
New South Wales
Victoria
Queensland
NSW
VIC
QLD
Bavaria
Bayern
Hessen
Sachsen
Nordrhein-Westfalen
Karnataka
Maharashtra
Tamil Nadu
Telangana
`

// departmentsText lists departments of companies and subjects of schools that may follow a title:
// "Vice President, Marketing".
const departmentsText = `
marketing
sales
engineering
software engineering
finance
operations
product
products
product management
human resources
hr
people
talent
research
research and development
research & development
r&d
development
design
legal
it
information technology
security
data
data science
analytics
communications
public relations
business development
strategy
procurement
logistics
supply chain
customer success
customer support
support
partnerships
growth
platform
infrastructure
quality
quality assurance
compliance
investor relations
corporate affairs
public affairs
vertrieb
einkauf
personal
forschung
forschung und entwicklung
entwicklung
finanzen
accounting
anthropology
applied mathematics
architecture
art history
astronomy
biochemistry
biology
chemistry
computer science
economics
education
electrical engineering
geography
geology
history
law
linguistics
mathematics
mechanical engineering
medicine
nursing
philosophy
physics
political science
psychology
sociology
statistics
theology
informatik
mathematik
physik
`

// familiesText lists titles that are also family names of which towns are named.
const familiesText = `
baker
carpenter
cook
dean
farmer
goldsmith
judge
mason
miner
painter
potter
ranger
smith
weaver
`

// townsText lists the second words of towns after a family name.
const townsText = `
city
county
creek
falls
heights
hills
park
springs
valley
`

// notNamesText lists capitalized words that are not part of a name.
const notNamesText = `
the
our
your
we
this
that
these
about
dear
hello
hi
hey
hallo
bonjour
hola
thanks
thank
regards
best
kind
sincerely
cheers
curriculum
vitae
resume
summary
profile
experience
education
skills
languages
contact
team
staff
member
members
order
invoice
page
home
page
follow
followers
following
joined
speaker
author
talk
title
company
name
date
subject
portfolio
github
linkedin
twitter
codehost
network
microblog
email
e-mail
phone
mobile
website
work
private
open
source
january
february
march
april
may
june
july
august
september
october
november
december
monday
tuesday
wednesday
thursday
friday
saturday
sunday
lebenslauf
berufserfahrung
ausbildung
street
road
avenue
lane
room
no
not
and
or
for
with
from
to
at
in
on
of
is
was
are
has
he
she
they
i
it
i'm
i’m
his
her
their
my
you
since
before
after
prior
previously
formerly
currently
now
chief
senior
junior
vice
welcome
news
blog
privacy
policy
terms
all
rights
reserved
copyright
new
lead
note
budget
next
step
executive
office
department
division
committee
board
management
customer
service
report
project
product
general
annual
meeting
agenda
abstract
introduction
conclusion
`
