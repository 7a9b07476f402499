package nativetest

import (
	"fmt"
	"maps"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Stages that an initiator requests (ClickHouse, Core/QueryProcessingStage.h).
const (
	stageMergeable = 1 // states of aggregate functions, to be merged
	stageComplete  = 2
)

// plan is a step of an EXPLAIN plan.
type plan struct {
	Type        string `json:"Node Type"`
	Description string
	Header      []struct{ Name string }
	Expression  jsontext.Value
	Keys        []string
	Aggregates  []struct{ Name string }
	Plans       []plan
}

// action computes one column and puts it into a slot.
type action struct {
	Type      string `json:"Node Type"`
	Name      string `json:"Result Name"`
	Arguments []int
	Result    int
}

// toStage rewrites a query so that its result is the one that the initiator expects of an intermediate stage. It
// returns the new names of the result's columns: an intermediate result has the names of expressions
// (`__table1.version`, `plus(__table1.k, 1_UInt8)`) instead of aliases, and includes columns that are used only for
// sorting.
func (c *conn) toStage(q *query, tables []block) (map[string]string, error) {
	if q.stage == stageComplete {
		return nil, nil
	}
	top, err := c.explain(q, tables)
	if err != nil {
		return nil, err
	}
	for step := top; q.stage == stageMergeable && len(step.Plans) > 0; step = step.Plans[0] {
		if step.Type == "Aggregating" {
			return nil, c.toStates(q, tables, step)
		}
	}
	var renamed struct{ Actions []action }
	if err := json.Unmarshal(top.Expression, &renamed); err != nil {
		return nil, fmt.Errorf("nativetest: parse EXPLAIN: %w", err)
	}
	names := aliases(renamed.Actions)
	given := make(map[string]bool)
	for _, inner := range names {
		given[inner] = true
	}
	var extra []string
	projected := false
	for step := top; len(step.Plans) == 1; {
		step = step.Plans[0]
		for _, column := range step.Header {
			if projected || given[column.Name] {
				continue
			}
			given[column.Name] = true
			expression, ok := innerSQL(column.Name)
			if !ok {
				continue // the initiator returns an error if it needs the column
			}
			alias := fmt.Sprintf("nativetest_%d", len(extra))
			extra = append(extra, expression+" AS "+quote(alias))
			names[alias] = column.Name
		}
		projected = projected || step.Description == "Projection"
	}
	if len(extra) > 0 {
		rest, found := strings.CutPrefix(q.text, "SELECT ")
		if !found || strings.HasPrefix(rest, "DISTINCT ") {
			return nil, errUnsupported(q, "sorts by columns that it does not select")
		}
		q.text = "SELECT " + strings.Join(extra, ", ") + ", " + rest
	}
	return names, nil
}

// withScalars rewrites the query to read scalars, which are values of subqueries that the initiator has run, from
// tables with one row: the engine as a library does not support scalars. It returns the tables that the query needs.
func (q *query) withScalars(blocks []block) (tables []block) {
	for i, b := range blocks {
		if b.scalar {
			call := "__getScalar('" + b.table + "')"
			if !strings.Contains(q.text, call) {
				continue
			}
			b.table = fmt.Sprintf("nativetest_scalar_%d", i)
			q.text = strings.ReplaceAll(q.text, call, "(SELECT * FROM "+quote(b.table)+")")
		}
		tables = append(tables, b)
	}
	return tables
}

// explain returns the plan of a query.
func (c *conn) explain(q *query, tables []block) (plan, error) {
	settings := maps.Clone(q.settings)
	settings["optimize_trivial_count_query"] = "0" // a trivial count has no aggregating step
	statement := "EXPLAIN header = 1, actions = 1, json = 1, optimize = 0 " + q.text + " FORMAT TSVRaw"
	response, _, err := c.execute(statement, settings, tables)
	if err != nil {
		return plan{}, err
	}
	var explained []struct{ Plan plan }
	if err := json.Unmarshal(response, &explained, jsontext.AllowDuplicateNames(true)); err != nil {
		return plan{}, fmt.Errorf("nativetest: parse EXPLAIN: %w", err)
	}
	if len(explained) != 1 {
		return plan{}, errUnsupported(q, "has no plan")
	}
	top := explained[0].Plan
	for strings.HasSuffix(top.Type, "CreatingSets") && len(top.Plans) > 0 {
		top = top.Plans[0] // the others create the sets of IN
	}
	if top.Description != "Project names" {
		return plan{}, errUnsupported(q, "has a "+top.Type+" step and no column names")
	}
	return top, nil
}

func errUnsupported(q *query, why string) error {
	return &exception{48, "nativetest: the embedded engine supports no intermediate stages, and this query " + why +
		": " + q.text}
}

// aliases returns the names of expressions by the aliases of a result, each expression once.
func aliases(actions []action) map[string]string {
	slots := make(map[int]string)
	out, seen := make(map[string]string), make(map[string]bool)
	for _, a := range actions {
		name := a.Name
		if a.Type == "ALIAS" && len(a.Arguments) == 1 {
			name = slots[a.Arguments[0]]
			if !seen[name] {
				seen[name] = true
				out[a.Name] = name
			}
		}
		slots[a.Result] = name
	}
	return out
}
