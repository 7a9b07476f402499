package clause

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"muster/platform/suggest"
	"muster/query-api/internal/search/aggregation"
	"muster/query-api/internal/search/algebra"
	"muster/query-api/internal/search/planner"
	"muster/schemas/readmodel"
)

// Limits of the parameters of an aggregation, besides those of package aggregation.
const (
	maxRanges        = 100
	maxNamedFilters  = 100
	maxIncluded      = 1000
	defaultTermsSize = 10
)

// AggregationKind is a row of the table of aggregations.
type AggregationKind struct {
	Kind       aggregation.Kind
	Parameters []Parameter
	// NoEffect are parameters of Elasticsearch that are accepted, but change nothing.
	NoEffect []Parameter
	// Notes are the known differences from Elasticsearch.
	Notes string

	lower func(l *aggregationLowering, a *args, out *aggregation.Aggregation) error
}

// AggregationKinds returns the table of aggregations.
func AggregationKinds() []AggregationKind {
	metric := (*aggregationLowering).metric
	return []AggregationKind{
		{aggregation.Terms, parameters("field", "size", "order", "min_doc_count", "missing", "include", "exclude",
			"format"), parameters("shard_size", "shard_min_doc_count", "collect_mode", "execution_hint"),
			"`min_doc_count` is at least 1. `include` and `exclude` are lists of values. The counts are exact.",
			(*aggregationLowering).terms},
		{aggregation.Range, parameters("field", "ranges", "keyed", "missing", "format"), nil,
			"Numbers and dates; dates may have date math.", (*aggregationLowering).ranges},
		{aggregation.DateHistogram, parameters("field", "calendar_interval", "fixed_interval", "format", "keyed",
			"min_doc_count", "missing", "order"), nil, "Intervals are those of UTC.", (*aggregationLowering).histogram},
		{aggregation.Filter, nil, nil, "The filter is a clause. `min_score` is rejected.", nil},
		{aggregation.Filters, parameters("filters", "other_bucket", "other_bucket_key"), nil, "",
			(*aggregationLowering).filters},
		{aggregation.Nested, parameters("path"), nil, "", (*aggregationLowering).nestedDocuments},
		{aggregation.ReverseNested, parameters("path"), nil, "Leads to the root: `path` is omitted.",
			(*aggregationLowering).reverseNested},
		{aggregation.Cardinality, parameters("field", "missing"),
			parameters("precision_threshold", "execution_hint"), "", metric},
		{aggregation.Min, parameters("field", "missing", "format"), nil, "Numbers and dates.", metric},
		{aggregation.Max, parameters("field", "missing", "format"), nil, "Numbers and dates.", metric},
		{aggregation.Avg, parameters("field", "missing", "format"), nil, "Numbers and dates.", metric},
		{aggregation.Sum, parameters("field", "missing", "format"), nil, "Numbers and dates.", metric},
		{aggregation.ValueCount, parameters("field", "missing"), nil, "", metric},
	}
}

// aggregationLowering is the state of lowering aggregations.
type aggregationLowering struct {
	*lowering
	kinds   []AggregationKind
	count   int
	refused *algebra.Field // named by a filter
}

// Aggregations parses the aggregations of a request at path.
func Aggregations(text []byte, path string, options Options) ([]aggregation.Aggregation, error) {
	if len(text) == 0 {
		return nil, nil
	}
	v, err := parse(text, path)
	if err != nil || v.kind == 'n' {
		return nil, err
	}
	l := &aggregationLowering{kinds: AggregationKinds()}
	options.Named = func(f algebra.Field) {
		if _, refused := aggregation.Refused(f); refused && l.refused == nil {
			l.refused = &f
		}
	}
	options.Unscored = true
	l.lowering = newLowering(options)
	out, err := l.list(v, 0, 0)
	if err == nil {
		err = l.exceeded
	}
	return out, err
}

// list lowers {"<name>": {...}, ...}. levels is the number of levels around it, depth that of aggregations.
func (l *aggregationLowering) list(v value, levels, depth int) ([]aggregation.Aggregation, error) {
	if v.kind != '{' {
		return nil, v.errorf("must be an object that names aggregations, not %s", v.what())
	}
	if depth >= MaxDepth {
		return nil, v.errorf("aggregations are nested deeper than %d levels", MaxDepth)
	}
	out := make([]aggregation.Aggregation, 0, len(v.members))
	for _, m := range v.members {
		if l.count++; l.count > aggregation.MaxAggregations {
			return nil, v.errorf("the request has more than %d aggregations", aggregation.MaxAggregations)
		}
		if m.name == "" || strings.ContainsAny(m.name, "[]>") {
			return nil, m.errorf("Invalid aggregation name [%s]. Aggregation names can contain any character except "+
				"'[', ']', and '>'", cut(m.name))
		}
		a, err := l.one(m, levels, depth)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// one lowers {"<kind>": {...}, "aggs": {...}}.
func (l *aggregationLowering) one(m member, levels, depth int) (out aggregation.Aggregation, err error) {
	if m.kind != '{' {
		return out, m.errorf("must be an aggregation, an object such as {\"terms\": {\"field\": "+
			"\"profile.location.country.keyword\"}}, not %s", m.what())
	}
	var body, inside *member
	for i := range m.members {
		p := &m.members[i]
		switch p.name {
		case "aggs", "aggregations":
			if inside != nil {
				return out, p.errorf("found two sub aggregation definitions under [%s]", cut(m.name))
			}
			inside = p
		case "meta":
			return out, p.errorf("is not supported: it is not returned")
		default:
			if body != nil {
				return out, p.errorf("found two aggregation type definitions in [%s]: [%s] and [%s]", cut(m.name),
					body.name, cut(p.name))
			}
			body = p
		}
	}
	if body == nil {
		return out, m.errorf("missing definition for aggregation [%s]: name its type, such as terms", cut(m.name))
	}
	i := slices.IndexFunc(l.kinds, func(k AggregationKind) bool { return string(k.Kind) == body.name })
	if i < 0 {
		return out, body.errorf("unknown or unsupported aggregation type [%s]: %s", cut(body.name),
			l.instead(body.name))
	}
	kind := &l.kinds[i]
	out = aggregation.Aggregation{Name: m.name, Kind: kind.Kind}
	if !kind.Kind.Selects() {
		if levels++; levels > aggregation.MaxLevels {
			return out, m.errorf("aggregations are nested deeper than %d levels: nested, reverse_nested and filter do "+
				"not count", aggregation.MaxLevels)
		}
	}
	outer := l.nested
	if err := l.body(kind, body, &out); err != nil {
		return out, err
	}
	defer func() { l.nested = outer }()
	if inside != nil {
		if kind.Kind.IsMetric() {
			return out, inside.errorf("aggregator [%s] of type [%s] cannot accept sub-aggregations", cut(m.name),
				kind.Kind)
		}
		if out.Sub, err = l.list(inside.value, levels, depth+1); err != nil {
			return out, err
		}
	}
	return out, l.orders(body, &out)
}

// body lowers the parameters of an aggregation.
func (l *aggregationLowering) body(kind *AggregationKind, body *member, out *aggregation.Aggregation) error {
	if kind.Kind == aggregation.Filter {
		n, err := l.filter(body.value)
		out.Filters = []aggregation.NamedFilter{{Node: n}}
		return err
	}
	for _, p := range body.members {
		if p.kind == 'n' {
			return p.errorf("must not be null: omit it")
		}
		if why := unsupportedAggregationParameter(p.name); why != "" {
			return p.errorf("is not supported: %s", why)
		}
	}
	a := arguments(body.value, kind.Parameters)
	for _, p := range kind.NoEffect {
		a.get(p.Name)
	}
	if slices.Contains(kind.Parameters, Parameter{"order"}) {
		a.get("order") // read by orders, after the aggregations inside
	}
	if err := kind.lower(l, a, out); err != nil {
		return err
	}
	return a.done()
}

// unsupportedAggregationParameter returns why a parameter of Elasticsearch is unsupported.
func unsupportedAggregationParameter(name string) string {
	switch name {
	case "script":
		return "scripts are not run"
	case "time_zone", "offset":
		return "intervals are those of UTC"
	case "interval":
		return "use calendar_interval or fixed_interval"
	case "extended_bounds", "hard_bounds":
		return "use a range clause in the query"
	case "show_term_doc_count_error":
		return "counts are exact"
	case "value_type":
		return "fields have one type"
	}
	return ""
}

// instead returns a hint for an unsupported aggregation.
func (l *aggregationLowering) instead(name string) string {
	names := make([]string, len(l.kinds))
	for i, k := range l.kinds {
		names[i] = string(k.Kind)
	}
	known := "known are " + strings.Join(names, ", ")
	switch name {
	case "stats", "extended_stats":
		return "use min, max, avg, sum and value_count"
	case "date_range", "ip_range":
		return "use range"
	case "histogram", "auto_date_histogram", "variable_width_histogram":
		return "use range or date_histogram"
	case "top_hits":
		return "results are those of the query: set size"
	case "multi_terms", "composite":
		return "use terms inside terms"
	case "missing":
		return "use filter with must_not and exists"
	case "percentiles", "percentile_ranks", "median_absolute_deviation":
		return "use range; " + known
	}
	return suggest.Hint(name, names, "K"+known[1:])
}

// field reads the parameter field.
func (l *aggregationLowering) field(a *args, out *aggregation.Aggregation) (value, error) {
	at := a.must("field")
	if a.err != nil {
		return at, a.err
	}
	if at.kind != '"' {
		return at, at.errorf("must be the name of a field, not %s", at.what())
	}
	f, err := l.lowering.resolve(at, at.text)
	if err != nil {
		return at, err
	}
	if why, refused := aggregation.Refused(f); refused {
		return at, at.errorf("the field %s cannot be aggregated: %s", f.Name(), why)
	}
	switch {
	case f.IsText():
		return at, at.errorf("text fields cannot be aggregated: use %s.keyword", f.Path)
	case l.hidden(f) && (f.Nested == "" || f.Flat):
		return at, at.errorf("the field %s is not in the elements of %s: put it into reverse_nested", f.Name(),
			l.nested)
	case l.hidden(f):
		return at, at.errorf("the field %s is not in the elements of %s", f.Name(), l.nested)
	}
	out.Field = f
	if f.Type == readmodel.SearchDate {
		out.Format = aggregation.ISODate
	}
	format, ok := a.get("format")
	if !ok {
		return at, nil
	}
	if f.Type != readmodel.SearchDate {
		return at, format.errorf("is for dates: %s is none", f.Name())
	}
	name, _, _ := strings.Cut(format.text, "||") // the first one is for output
	if out.Format, ok = datePrinter(name); format.kind != '"' || !ok {
		return at, (&dateReader{}).format(format, cutEmpty(format.text))
	}
	return at, nil
}

// cutEmpty returns a format that is unknown if the text is empty.
func cutEmpty(text string) string {
	if text == "" {
		return "?"
	}
	return text
}

// dates returns a reader of dates in the format of the aggregation.
func (l *aggregationLowering) dates(a *args) (dateReader, error) {
	d := dateReader{now: l.options.Now, zones: l.zones}
	format, ok := a.get("format")
	if !ok {
		return d, nil
	}
	return d, d.format(format, format.text)
}

// key returns a value of the aggregation's field.
func (l *aggregationLowering) key(a *args, f algebra.Field, v value) (aggregation.Key, error) {
	text, err := v.scalar()
	if err != nil {
		return aggregation.Key{}, err
	}
	switch f.Type {
	case readmodel.SearchText:
		return aggregation.Key{Text: text}, nil
	case readmodel.SearchBoolean:
		if text != "true" && text != "false" {
			return aggregation.Key{}, v.errorf("must be true or false")
		}
		k := aggregation.Key{}
		if text == "true" {
			k.Number = 1
		}
		return k, nil
	case readmodel.SearchDate:
		if v.kind == '"' {
			d, err := l.dates(a)
			if err != nil {
				return aggregation.Key{}, err
			}
			ms, err := d.read(v, text, false)
			return aggregation.Key{Number: ms}, err
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n == readmodel.SearchMissing {
		return aggregation.Key{}, v.errorf("must be an integer")
	}
	return aggregation.Key{Number: n}, nil
}

// missing reads the parameter missing.
func (l *aggregationLowering) missing(a *args, out *aggregation.Aggregation) error {
	at, ok := a.get("missing")
	if !ok {
		return nil
	}
	k, err := l.key(a, out.Field, at)
	out.Missing = &k
	return err
}

func (l *aggregationLowering) terms(a *args, out *aggregation.Aggregation) error {
	if _, err := l.field(a, out); err != nil {
		return err
	}
	out.Size = a.integer("size", defaultTermsSize, 1, aggregation.MaxSize)
	out.MinCount = int64(a.integer("min_doc_count", 1, 1, math.MaxInt32))
	for name, into := range map[string]*map[aggregation.Key]bool{"include": &out.Include, "exclude": &out.Exclude} {
		at, ok := a.get(name)
		if !ok {
			continue
		}
		if at.kind != '[' {
			return at.errorf("must be a list of values: regular expressions and partitions are not supported")
		}
		if len(at.items) > maxIncluded {
			return at.errorf("has more than %d values", maxIncluded)
		}
		*into = make(map[aggregation.Key]bool, len(at.items))
		for _, item := range at.items {
			k, err := l.key(a, out.Field, item)
			if err != nil {
				return err
			}
			(*into)[k] = true
		}
	}
	return l.missing(a, out)
}

func (l *aggregationLowering) ranges(a *args, out *aggregation.Aggregation) error {
	field, err := l.field(a, out)
	if err != nil {
		return err
	}
	if out.Field.IsString() || out.Field.Type == readmodel.SearchBoolean {
		return field.errorf("must be a number or a date: use terms or filters for %s", out.Field.Name())
	}
	out.Keyed = a.flag("keyed", false)
	at := a.must("ranges")
	switch {
	case a.err != nil:
		return a.err
	case at.kind != '[' || len(at.items) == 0:
		return at.errorf("must be a list of ranges, such as [{\"to\": 100}, {\"from\": 100}]")
	case len(at.items) > maxRanges:
		return at.errorf("has more than %d ranges", maxRanges)
	}
	for _, item := range at.items {
		r, err := l.interval(a, out, item)
		if err != nil {
			return err
		}
		out.Ranges = append(out.Ranges, r)
	}
	slices.SortStableFunc(out.Ranges, func(x, y aggregation.Interval) int {
		if by := compareBounds(x.From, y.From, math.Inf(-1)); by != 0 {
			return by
		}
		return compareBounds(x.To, y.To, math.Inf(1))
	})
	return l.missing(a, out)
}

func compareBounds(a, b *float64, unbounded float64) int {
	x, y := unbounded, unbounded
	if a != nil {
		x = *a
	}
	if b != nil {
		y = *b
	}
	return cmp.Compare(x, y)
}

// interval reads {"key": ..., "from": ..., "to": ...}.
func (l *aggregationLowering) interval(
	a *args, out *aggregation.Aggregation, v value,
) (r aggregation.Interval, err error) {
	b := arguments(v, parameters("key", "from", "to"))
	key, named := b.get("key")
	if named && key.kind != '"' {
		return r, key.errorf("must be a string, not %s", key.what())
	}
	for name, into := range map[string]**float64{"from": &r.From, "to": &r.To} {
		at, ok := b.get(name)
		if !ok || at.kind == 'n' {
			continue
		}
		x, isNumber := at.number()
		if out.Format != nil && at.kind == '"' {
			d, err := l.dates(a)
			if err != nil {
				return r, err
			}
			ms, err := d.read(at, at.text, false)
			if err != nil {
				return r, err
			}
			x, isNumber = float64(ms), true
		}
		if !isNumber {
			return r, at.errorf("must be a number, or a date of a field with dates")
		}
		*into = &x
	}
	if err := b.done(); err != nil {
		return r, err
	}
	r.Key = key.text
	if !named {
		r.Key = aggregation.RangeKey(r, func(x float64) string {
			if out.Format != nil {
				return out.Format(int64(x))
			}
			return aggregation.JavaDouble(x)
		})
	}
	return r, nil
}

func (l *aggregationLowering) histogram(a *args, out *aggregation.Aggregation) error {
	field, err := l.field(a, out)
	if err != nil {
		return err
	}
	if out.Format == nil {
		return field.errorf("must be a date: use range for %s", out.Field.Name())
	}
	calendar, isCalendar := a.get("calendar_interval")
	fixed, isFixed := a.get("fixed_interval")
	var ok bool
	switch {
	case isCalendar == isFixed:
		return a.at.errorf("needs either calendar_interval or fixed_interval")
	case isCalendar:
		if out.Interval, ok = aggregation.CalendarRounding(calendar.text); !ok || calendar.kind != '"' {
			return calendar.errorf("must be one of second, minute, hour, day, week, month, quarter, year, 1s, 1m, " +
				"1h, 1d, 1w, 1M, 1q, 1y")
		}
	default:
		if out.Interval, ok = aggregation.FixedRounding(fixed.text); !ok || fixed.kind != '"' {
			return fixed.errorf("must be a number and a unit, ms, s, m, h or d, such as 30d")
		}
	}
	out.Keyed = a.flag("keyed", false)
	out.MinCount = int64(a.integer("min_doc_count", 0, 0, math.MaxInt32))
	return l.missing(a, out)
}

// filter lowers a clause that selects documents. It must not tell who has a name, an address and so on.
func (l *aggregationLowering) filter(v value) (algebra.Node, error) {
	l.refused = nil
	l.unshown = true // no inner hits
	n, err := l.clause(v)
	if err != nil {
		return nil, err
	}
	if f := l.refused; f != nil {
		why, _ := aggregation.Refused(*f)
		return nil, v.errorf("a filter of an aggregation cannot use %s: %s; put it into query", f.Name(), why)
	}
	if planner.ScoresDecide(n) {
		return nil, v.errorf("a filter of an aggregation has no scores: omit min_score")
	}
	return n, nil
}

func (l *aggregationLowering) filters(a *args, out *aggregation.Aggregation) error {
	at := a.must("filters")
	if a.err != nil {
		return a.err
	}
	items := make([]member, 0, len(at.items))
	switch out.Keyed = at.kind == '{'; {
	case out.Keyed:
		items = at.members
	case at.kind == '[':
		for _, item := range at.items {
			items = append(items, member{value: item})
		}
	}
	switch {
	case len(items) == 0:
		return at.errorf("must be an object of named clauses, or a list of clauses")
	case len(items) > maxNamedFilters:
		return at.errorf("has more than %d filters", maxNamedFilters)
	}
	for _, m := range items {
		n, err := l.filter(m.value)
		if err != nil {
			return err
		}
		out.Filters = append(out.Filters, aggregation.NamedFilter{Name: m.name, Node: n})
	}
	key, named := a.get("other_bucket_key")
	if named && (key.kind != '"' || key.text == "") {
		return key.errorf("must be a string that is not empty")
	}
	if a.flag("other_bucket", named) {
		if out.Other = key.text; !named {
			out.Other = "_other_"
		}
	}
	if out.Keyed && slices.ContainsFunc(items, func(m member) bool { return m.name == out.Other }) && out.Other != "" {
		return at.errorf("the name %s is that of the bucket of other documents: set other_bucket_key", quote(out.Other))
	}
	return nil
}

func (l *aggregationLowering) nestedDocuments(a *args, out *aggregation.Aggregation) error {
	path := a.must("path")
	if a.err != nil {
		return a.err
	}
	if l.nested != "" {
		return path.errorf("is inside %s, whose elements have no nested elements: put it into reverse_nested", l.nested)
	}
	if err := l.nestedPath(path, path.text); err != nil {
		return err
	}
	out.Path, l.nested = path.text, path.text
	return nil
}

func (l *aggregationLowering) reverseNested(a *args, out *aggregation.Aggregation) error {
	if path, ok := a.get("path"); ok {
		return path.errorf("must be omitted: reverse_nested leads to the root")
	}
	if l.nested == "" {
		return a.at.errorf("reverse_nested must be inside nested")
	}
	out.Path, l.nested = l.nested, ""
	return nil
}

func (l *aggregationLowering) metric(a *args, out *aggregation.Aggregation) error {
	field, err := l.field(a, out)
	if err != nil {
		return err
	}
	if out.Kind != aggregation.Cardinality && out.Kind != aggregation.ValueCount {
		if out.Field.IsString() || out.Field.Type == readmodel.SearchBoolean {
			return field.errorf("must be a number or a date: use terms, value_count or cardinality for %s",
				out.Field.Name())
		}
	}
	return l.missing(a, out)
}

// maxOrders is the maximum number of sort keys of buckets.
const maxOrders = 8

// orders reads the parameter order, which may name aggregations inside.
func (l *aggregationLowering) orders(body *member, out *aggregation.Aggregation) error {
	out.Orders = []aggregation.Order{{By: aggregation.ByCount, Descending: true}}
	switch out.Kind {
	case aggregation.Terms:
	case aggregation.DateHistogram:
		out.Orders = []aggregation.Order{{By: aggregation.ByKey}}
	default:
		out.Orders = nil
		return nil
	}
	i := slices.IndexFunc(body.members, func(m member) bool { return m.name == "order" })
	if i < 0 {
		return nil
	}
	at := body.members[i].value
	items := at.items
	if at.kind != '[' {
		items = []value{at}
	}
	if len(items) == 0 || len(items) > maxOrders {
		return at.errorf("must have 1 to %d keys", maxOrders)
	}
	out.Orders = nil
	for _, item := range items {
		if item.kind != '{' || len(item.members) != 1 {
			return item.errorf("must be an object with one key, such as {\"_count\": \"desc\"}")
		}
		m := item.members[0]
		direction := strings.ToLower(m.text)
		if m.kind != '"' || direction != "asc" && direction != "desc" {
			return m.errorf("must be asc or desc")
		}
		o := aggregation.Order{Descending: direction == "desc"}
		switch m.name {
		case "_count":
			o.By = aggregation.ByCount
		case "_key":
			o.By = aggregation.ByKey
		default:
			o.By = aggregation.BySub
			if o.Sub = orderedBy(out.Sub, m.name); o.Sub < 0 {
				return m.errorf("invalid aggregation order path: it is _count, _key, or the name of a metric, " +
					"filter, nested or reverse_nested aggregation inside")
			}
		}
		out.Orders = append(out.Orders, o)
	}
	return nil
}

// orderedBy returns the index of the aggregation that a sort key of buckets names.
func orderedBy(list []aggregation.Aggregation, path string) int {
	return slices.IndexFunc(list, func(a aggregation.Aggregation) bool {
		switch {
		case a.Kind.IsMetric():
			return path == a.Name || path == a.Name+".value"
		case a.Kind.Selects():
			return path == a.Name || path == a.Name+".doc_count" || path == a.Name+"._count"
		}
		return false
	})
}
