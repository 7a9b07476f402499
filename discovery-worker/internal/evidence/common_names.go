package evidence

import "strings"

// A store holds few of all people, so a name that is unique in it may still be very common. These
// given and family names are among the most frequent in the statistics of many countries, in the
// transliteration of identity.NameTokens.
const commonGivenNames = " " +
	"aaron abdul abdullah abigail adam adriana agnieszka ahmad ahmed aisha akira alan albert alejandro aleksandr " +
	"alex alexander alexandra alexey ali alice alina amanda amir amit amy ana anastasia andre andrea andreas " +
	"andrei andrew angela anita anjali ann anna anne anthony anton antonio arjun arthur ashley ayse barbara ben " +
	"benjamin bilal bogdan brandon brian bruno camila carla carlos carol caroline catherine charles charlotte " +
	"chen chiara chloe chris christian christina christine christopher claire claudia cristina dan daniel " +
	"daniela daria david deepak denis diana diego dimitri dmitri dmitry dong edward ekaterina elena eli " +
	"elizabeth emily emma emre eric erik eva evgeny fatema fatima felipe felix fernanda fernando florian " +
	"francesco francisco frank gabriel george giorgi giovanni giulia grace grzegorz guilherme gustavo hana " +
	"hannah hans haruto hassan helen henry hiroshi hiroyuki hong hung hussein ian ibrahim igor ines ioana irina " +
	"isabel ivan jack jacob jakub james jan jane jason javier jean jennifer jessica jie jin jing joao joe johan " +
	"john jonas jonathan jorge jose joseph joshua juan jun justin kai karen karim karl katarzyna kate katherine " +
	"kathleen katja kazuki kelly kenji kenneth kevin khaled kim kiran krzysztof kumar lan lars laura lea lee " +
	"lena leo leon li lin linda linh lisa liu lorenzo louis luca lucas lucia lucy luis lukas lukasz maciej madhu " +
	"magdalena mahmoud manuel marc marco marcos maria mariana marie marina mario mark marko marta martin mary " +
	"mateusz matteo matthew max maxim mehmet mei mia michael michal michel miguel mihai mike min ming minh " +
	"mohamed mohammad mohammed monika mostafa muhammad mustafa nadia nam nancy natalia natasha neha nguyen " +
	"nicholas nick nicolas nicole nikita nikolai nina noah noor olena olga oliver olivia omar oscar pablo paolo " +
	"patricia patrick paul paula paulo pavel pedro peter petr philip phuong pierre piotr pooja priya qing quang " +
	"rachel rafael rahul raj rajesh raul ravi rebecca ricardo richard robert roberto rodrigo roman ronald rosa " +
	"ruth ryan sakura sam samantha samuel sandra sanjay sara sarah satoshi scott sean sebastian sergei sergey " +
	"sergio shreya simon sneha sofia sophia sophie stefan stephanie stephen steven sunil susan svetlana takashi " +
	"tamara tanaka tatiana thanh theo thi thomas tim timothy tom tomas tuan valentina van victor viktor vincent " +
	"vladimir wang wei william wojciech xin yan yang yasmin ying yoko yu yuki yulia yuri yusuf yves zeynep zhang " +
	"zoe "

const commonFamilyNames = " " +
	"abdullah abe adams aguilar ahmad ahmed akhtar ali allen almeida alvarez alves anderson ansari aziz bailey " +
	"baker barbosa bauer becker bell bennett bernard bianchi bose brown bui campbell carter carvalho castillo " +
	"castro chan chang chatterjee chaudhary chen cheng cho choi chopra chowdhury clark collins cook cooper costa " +
	"cox cruz da dang das davies davis demir desai diaz do dos dubois durand edwards esposito evans fernandes " +
	"fernandez ferrari ferreira fischer flores fontana foster fujita garcia ghosh gill gomes gomez goncalves " +
	"gonzalez gray greco green gupta gutierrez hall han hansen harris hassan hayashi he hernandez hill ho hoang " +
	"hoffmann hong hossain hu huang hughes hussain hussein huynh ibrahim ito ivanov ivanova iyer jackson jain " +
	"james jang jansen jensen jeong jha jimenez johansson johnson jones joshi jung kang kapoor karlsson kato " +
	"kaur kaya kelly khan kim kimura king kobayashi koch kovac kowalski kozlov kumar kumari kuznetsov lam " +
	"lambert larsen lau laurent le lee lefebvre leroy levy lewis li liang lim lima lin liu lo long lopes lopez " +
	"lu ma malik marino martin martinez martins matsumoto mehta mendes mendoza meyer miller mishra mitchell " +
	"mohamed moore morales moreau moreno morgan mori morozov morris mueller muller murphy nair nakamura nelson " +
	"ng ngo nguyen nielsen novak nowak oliveira olsen omar ortiz pak pandey park parker patel paul pereira " +
	"perera perez petrov petrova pham phan phillips popov popova prasad rahman ramirez ramos rao reddy reyes " +
	"ribeiro ricci richardson rivera roberts robinson rocha rodrigues rodriguez rogers romano romero rossi roy " +
	"ruiz russo saeed sahin saito salem sanchez santos sasaki sato schmidt schneider schulz schwarz scott sen " +
	"shah shaikh sharma shi shimizu silva simon singh smirnov smirnova smith soares sokolov song soto sousa " +
	"souza stewart sun suzuki takahashi tan tanaka tang taylor thapa thomas thompson torres tran tsai turner " +
	"vargas varma vazquez verma vieira vo volkov wagner walker wang ward watanabe watson weber white williams " +
	"wilson wong wood wright wu xie xu yadav yamada yamaguchi yamamoto yang yildiz yilmaz yoon yoshida young yu " +
	"zhang zhao zheng zhou zhu "

// countCommonParts returns how many parts of a name are common ones: 0, 1 or 2.
func countCommonParts(tokens []string) int {
	given := func(w string) bool { return strings.Contains(commonGivenNames, " "+w+" ") }
	family := func(w string) bool { return strings.Contains(commonFamilyNames, " "+w+" ") }
	n := 0
	first, last := tokens[0], tokens[len(tokens)-1]
	if given(first) || len(tokens) > 1 && family(first) {
		n++
	}
	if len(tokens) > 1 && (family(last) || given(last)) {
		n++
	}
	return n
}
