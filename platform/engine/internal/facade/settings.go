package facade

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/platform/engine/internal/chdb"
)

const settingLogComment = "log_comment"

// reserved are URL parameters that are not settings.
var reserved = map[string]bool{
	"query": true, "database": true, "default_format": true, "query_id": true, "user": true, "password": true,
	"quota_key": true, "session_id": true, "session_timeout": true, "session_check": true, "close_session": true,
	"compress": true, "decompress": true, "stacktrace": true, "buffer_size": true, "wait_end_of_query": true,
	"client_protocol_version": true, "role": true,
}

// handled are settings of the transport, which the facade implements, and settings that would make the engine
// acknowledge rows before it has stored them (async_insert).
var handled = map[string]bool{
	"enable_http_compression": true, "http_zlib_compression_level": true, "network_compression_method": true,
	"network_zstd_compression_level": true, "send_progress_in_http_headers": true,
	"http_headers_progress_interval_ms": true,
	"http_wait_end_of_query":            true, "http_response_buffer_size": true, "add_http_cors_header": true,
	"cancel_http_readonly_queries_on_client_close": true, "http_write_exception_in_output_format": true,
	"http_max_uri_size": true, "http_max_fields": true, "http_max_field_name_size": true,
	"http_max_field_value_size": true,
	"async_insert":              true, "wait_for_async_insert": true, "wait_for_async_insert_timeout": true,
	"max_execution_time": true, "default_format": true,
}

// analystSettings are the settings that analysts may change: the output, and resource limits below those of analysts.
var analystSettings = []string{
	"max_threads", "max_block_size", "max_result_rows", "max_result_bytes", "result_overflow_mode", "max_rows_to_read",
	"max_bytes_to_read", "read_overflow_mode", "max_memory_usage", "max_query_size", "join_use_nulls", "join_algorithm",
	"group_by_use_nulls", "union_default_mode", "limit", "offset", "extremes", "final", "log_comment",
	"optimize_read_in_order",
	"use_query_condition_cache", "session_timezone", "date_time_output_format", "date_time_input_format",
	"prefer_column_name_to_alias", "transform_null_in", "any_join_distinct_right_table_keys", "readonly",
}

// request holds the parsed parameters of a request.
type request struct {
	values        url.Values
	user          *User
	setup         setup
	params        []chdb.Param
	timeout       time.Duration // max_execution_time; 0: no limit
	revision      uint64
	defaultFormat string
	waitEnd       bool
	compress      bool // block framing of the response
	decompress    bool // block framing of the body
	httpCompress  bool // use Accept-Encoding
	compressLevel int
	codec         string // of the block framing
	session       string
	maxQuerySize  int
	hasTempTables bool // may read temporary tables that other requests cannot
}

// parseRequest parses the parameters. ignore names parameters that belong to external tables.
func (s *Server) parseRequest(
	values url.Values, user *User, readonlyMethod bool, ignore map[string]bool,
) (*request, *chdb.Error) {
	q := &request{
		values: values, user: user, session: values.Get("session_id"),
		defaultFormat: values.Get("default_format"), httpCompress: s.settings["enable_http_compression"] != "0",
		compressLevel: 3, codec: "LZ4", maxQuerySize: 256 << 10,
	}
	database, accessErr := databaseFor(user, values.Get("database"))
	if accessErr != nil {
		return nil, accessErr
	}
	q.setup = setup{user: user.Name, database: database}
	q.waitEnd = isTrue(values.Get("wait_end_of_query"))
	q.compress, q.decompress = isTrue(values.Get("compress")), isTrue(values.Get("decompress"))
	if v := values.Get("client_protocol_version"); v != "" {
		revision, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			return nil, errBadArguments.errorf("client_protocol_version %q is not a number", v)
		}
		q.revision = revision
	}
	for name, all := range values {
		value := all[len(all)-1]
		switch {
		case strings.HasPrefix(name, "param_"):
			q.params = append(q.params, chdb.Param{Name: name[len("param_"):], Value: value})
		case reserved[name] || ignore[name]:
		case name == "":
		default:
			if _, known := s.settings[name]; !known {
				return nil, errUnknownSetting.errorf("Setting %s is neither a builtin setting nor started with the "+
					"prefix 'SQL_' registered for user-defined settings", name)
			}
			if err := q.set(name, value); err != nil {
				return nil, err
			}
		}
	}
	isReadonly := func(p chdb.Param) bool { return p.Name == "readonly" && p.Value != "0" }
	if user.Analyst {
		if err := q.restrict(s.cfg.AnalystLimits); err != nil {
			return nil, err
		}
	} else if readonlyMethod && !slices.ContainsFunc(q.setup.settings, isReadonly) {
		// GET must not change anything, but may carry settings.
		q.put("readonly", "2")
	}
	slices.SortFunc(q.setup.settings, func(a, b chdb.Param) int {
		// readonly comes last: after it no other setting can be changed.
		if ra, rb := a.Name == "readonly", b.Name == "readonly"; ra != rb {
			if ra {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return q, nil
}

func (q *request) set(name, value string) *chdb.Error {
	number, _ := strconv.ParseFloat(value, 64)
	switch name {
	case "enable_http_compression":
		q.httpCompress = isTrue(value)
	case "http_zlib_compression_level", "network_zstd_compression_level":
		q.compressLevel = int(number)
	case "network_compression_method":
		q.codec = strings.ToUpper(value)
	case "http_wait_end_of_query":
		q.waitEnd = q.waitEnd || isTrue(value)
	case "max_execution_time":
		// The facade enforces it, so that requests with different timeouts can share connections.
		q.timeout = time.Duration(number * float64(time.Second))
	case "default_format":
		q.defaultFormat = value
	case "max_query_size":
		if number >= 1 {
			q.maxQuerySize = int(number)
		}
		q.put(name, value)
	default:
		if !handled[name] {
			q.put(name, value)
		}
	}
	return nil
}

func (q *request) put(name, value string) {
	q.setup.settings = slices.DeleteFunc(q.setup.settings, func(p chdb.Param) bool { return p.Name == name })
	q.setup.settings = append(q.setup.settings, chdb.Param{Name: name, Value: value})
}

// Limits limit the resources of an analyst's query.
type Limits struct {
	MaxExecutionTime time.Duration
	MaxMemory        int64 // bytes for each query
	MaxThreads       int
	MaxResultRows    int64
}

// maxAnalystQuery is the maximum length of an analyst's statement in bytes, regardless of max_query_size: the parser
// uses about a hundred times as much memory.
const maxAnalystQuery = 4 << 20

// restrict applies the allow list and the limits, and forbids further changes.
func (q *request) restrict(limits Limits) *chdb.Error {
	ceilings := map[string]int64{
		"max_memory_usage": limits.MaxMemory, "max_threads": int64(limits.MaxThreads),
		"max_result_rows": limits.MaxResultRows,
		"max_query_size":  maxAnalystQuery,
	}
	for _, p := range q.setup.settings {
		if !slices.Contains(analystSettings, p.Name) && !isFormatSetting(p.Name) {
			return errReadonly.errorf("Cannot modify '%s' setting in readonly mode", p.Name)
		}
		if ceiling := ceilings[p.Name]; ceiling > 0 {
			n, err := strconv.ParseInt(p.Value, 10, 64)
			if err != nil || n <= 0 || n > ceiling {
				return errSettingConstraint.errorf("Setting %s shouldn't be greater than %d", p.Name, ceiling)
			}
			delete(ceilings, p.Name)
		}
	}
	delete(ceilings, "max_query_size") // the default is lower
	for name, ceiling := range ceilings {
		if ceiling > 0 {
			q.put(name, strconv.FormatInt(ceiling, 10))
		}
	}
	if limits.MaxExecutionTime > 0 && (q.timeout <= 0 || q.timeout > limits.MaxExecutionTime) {
		q.timeout = limits.MaxExecutionTime
	}
	// The limits were checked on the original text. The normal form that runs may be longer and have more parentheses.
	q.put("max_query_size", "0")
	q.put("max_parser_depth", "10000")
	q.put("allow_introspection_functions", "0")
	q.put("readonly", "1")
	return nil
}

// isFormatSetting reports whether a setting changes only the output. Schema settings are excluded: they name files.
func isFormatSetting(name string) bool {
	if strings.Contains(name, "schema") {
		return false
	}
	return strings.HasPrefix(name, "output_format_") || strings.HasPrefix(name, "format_csv_") ||
		strings.HasPrefix(name, "format_tsv_") || strings.HasPrefix(name, "format_custom_") ||
		strings.HasPrefix(name, "bool_") && strings.HasSuffix(name, "_representation")
}

func isTrue(v string) bool {
	switch strings.ToLower(v) {
	case "", "0", "false", "off", "no":
		return false
	}
	return true
}
