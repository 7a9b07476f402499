package evidence

import (
	"slices"
	"strings"
)

// nicknameGroups are given names with their short forms, one group per line, in lower-case Latin
// letters. A name may be in several groups.
const nicknameGroups = `alexander alex alec lex sasha xander sandro
alexandra alex sandra sasha lexi alexa
aleksandr alex sasha sanya
aleksandra alex sasha ola
alfred alf fred alfie
alfonso alonso fonso
amanda mandy
andrew andy drew
andreas andi andy
andrei andrey andryusha
angela angie
anthony tony ant
antonio toni tony tonio
anna ann annie anya nancy
arthur art artie
barbara barb babs basia
benjamin ben benny benji
bernard bernie
catherine cathy kate katie kat cat
katherine kate katie kathy kat kay
katarzyna kasia
christina chris tina chrissy
christine chris tina chrissy
christopher chris kit topher
christian chris
charles charlie chuck chas
charlotte lottie charlie
daniel dan danny dani
daniela dani
david dave davy
deborah deb debbie
dmitry dima mitya
dmitri dima mitya
dorothy dot dottie
edward ed eddie ted ned
eduardo edu
ekaterina katya kate
elizabeth liz lizzie beth betty eliza liza ellie
elena lena lenka
emily em emmy
emma em
eric rick
evgeny zhenya eugene
evgenia zhenya
fernando nando fer
francis frank
francisco paco pancho fran
franklin frank
frederick fred freddie
friedrich fritz fred
gabriel gabe gabi
gabriela gabi
george georgie
gerald gerry jerry
gregory greg
grzegorz grzesiek greg
guillermo memo willy guille
gustavo gus tavo
harold hal harry
hans hansi
heinrich heinz
henry hank harry
helen nell
ignacio nacho
ivan vanya
jacob jake
jakub kuba
james jim jimmy jamie
jan janek
jennifer jen jenny
jessica jess jessie
jesus chuy
joanna jo joasia asia
johannes hannes jo
jonathan jon jonny
john johnny jack
joseph joe joey
jose pepe
josefina pepa fina
joshua josh
juan juanito
judith judy
katarina kata
kenneth ken kenny
konstantin kostya
kimberly kim
lawrence larry
leonard leo len lenny
leonardo leo
louis lou
luis lucho
lucas luke
magdalena magda lena
malgorzata gosia
manuel manolo manu
margaret maggie meg peggy greta
margarita rita marga
maria mary mari masha
mariana mari
martin marty
matthew matt matty
matthias matt hias
maximilian max
maxim max
mehmet memo
michael mike mick mickey micha
michelle shelly
mikhail misha
miguel migue
mohammed mo moe
muhammad mo moe
mohamed mo moe
nadezhda nadya
natalia nat natasha
natalya natasha
nathaniel nat nate
nathan nate
nicholas nick nicky
nicolas nico nick
nikolai kolya
nicole nicky
oleksandr sasha oleks
olga olya
oliver olli ollie
pamela pam
patricia pat patty trish
patrick pat paddy
pavel pasha
peter pete
piotr piotrek
philip phil pip
rafael rafa
raymond ray
rebecca becky becca
richard rick dick rich richie
robert rob bob bobby robbie bert
roberto beto rob
rodrigo rodri
ronald ron ronnie
rosario charo
samantha sam
samuel sam sammy
santiago santi
sebastian seb bastian basti
sergey seryozha
sergio sergi checo
sophia sophie sonya
stanislav stas slava
stephanie steph steffi
stephen steve stevie
steven steve stevie
susan sue susie
svetlana sveta
tatiana tanya
tatyana tanya
theodore ted theo
teresa tere terry
theresa terry tess
thomas tom tommy
timothy tim timmy
tomasz tomek
ulrich uli
valentina valya
vasily vasya
veronica vero ronnie
victoria vicky tori vika
vincent vince vinny
vladimir vova volodya vlad
vyacheslav slava
walter walt wally
wilhelm willi
william will bill billy liam
wojciech wojtek
yekaterina katya
yevgeny zhenya
yuri yura
zachary zach zack`

// nicknameIndex looks up the groups of a name.
type nicknameIndex struct {
	others map[string][]string   // by name, in the order of the groups
	headed map[string][][]string // groups by their first name
}

var nicknameTable = indexNicknames(nicknameGroups) //nolint:gochecknoglobals // a constant table

func indexNicknames(groups string) nicknameIndex {
	index := nicknameIndex{others: make(map[string][]string), headed: make(map[string][][]string)}
	for line := range strings.Lines(groups) {
		group := strings.Fields(line)
		index.headed[group[0]] = append(index.headed[group[0]], group)
		for _, n := range group {
			for _, other := range group {
				if other != n {
					index.others[n] = append(index.others[n], other)
				}
			}
		}
	}
	return index
}

// Nicknames returns the other given names that may be used for one. The slice is shared and must
// not be changed.
func Nicknames(given string) []string { return slices.Clip(nicknameTable.others[given]) }

// nicknames reports whether two given names may be of one person.
func nicknames(a, b string) bool {
	in := func(head, other string) bool {
		return slices.ContainsFunc(nicknameTable.headed[head], func(group []string) bool {
			return slices.Contains(group, other)
		})
	}
	return in(a, b) || in(b, a)
}
