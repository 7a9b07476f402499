package facade

import (
	"slices"
	"strings"
)

// harmlessTableFunctions read nothing but the engine's own tables or their
// arguments. Every other table function reaches files, hosts or programs, or
// may do so in a later version.
var harmlessTableFunctions = []string{
	"numbers", "numbers_mt", "zeros", "zeros_mt", "generateSeries", "generate_series", "generateRandom", "values", "null",
	"merge", "view", "viewIfPermitted", "viewExplain", "loop", "format", "primes", "mergeTreeIndex", "mergeTreeProjection",
	"mergeTreeTextIndex", "mergeTreeAnalyzeIndexes", "mergeTreeAnalyzeIndexesUUID", "timeSeriesSelector", "timeSeriesData", "timeSeriesTags", "timeSeriesMetrics",
	"timeSeriesSamples", "prometheusQuery", "prometheusQueryRange",
}

// dangerousFunctions are ordinary functions that read files, ask other hosts,
// or load code. In the engine as a library, file() reads any file.
var dangerousFunctions = []string{
	"file", "hasColumnInTable", "reverseDNSQuery", "catboostEvaluate", "evalMLMethod", "filesystemAvailable", "filesystemCapacity",
	"filesystemUnreserved", "getServerSetting", "zookeeperSessionUptime", "addressToLine", "addressToLineWithInlines",
	"addressToSymbol", "naiveBayesClassifier", "sleep", "sleepEachRow", "getClientHTTPHeader", "executable", "python",
}

func deniedFunctions(tableFunctions, functions []string) map[string]bool {
	denied := make(map[string]bool)
	for _, name := range tableFunctions {
		if !slices.Contains(harmlessTableFunctions, name) {
			denied[strings.ToLower(name)] = true
		}
	}
	for _, name := range functions {
		if lower := strings.ToLower(name); strings.HasPrefix(name, "ai") && len(name) > 2 && name[2] >= 'A' && name[2] <= 'Z' || strings.Contains(lower, "llm") {
			denied[lower] = true
		}
	}
	for _, name := range dangerousFunctions {
		denied[strings.ToLower(name)] = true
	}
	return denied
}

// checkFunctions refuses a text that names a denied function where a function
// can be called: in front of a parenthesis, or behind APPLY. readonly=1 stops
// most of them in the engine, but not file() among the ordinary functions.
func (s *Server) checkFunctions(user *User, text string) error {
	lex := lexer{text: text}
	var last, before token
	for tok := lex.next(); ; tok = lex.next() {
		call := tok.punct('(') && s.denied[strings.ToLower(last.name())]
		applied := s.denied[strings.ToLower(tok.name())] && (last.is("APPLY") || last.punct('(') && before.is("APPLY"))
		if call || applied {
			name := last.name()
			if applied {
				name = tok.name()
			}
			return errAccessDenied.errorf("%s: Not enough privileges. The function %s is not for analysts", user.Name, name)
		}
		if tok.kind == tokenEnd {
			return nil
		}
		before, last = last, tok
	}
}
