package planner

import (
	"strconv"
	"strings"
)

// Replica is the server that parts are read from, or a replica of a cluster of one shard.
type Replica struct {
	Cluster string // in remote_servers; empty: no cluster
	Number  uint32 // from 1
}

// SeenTable is the table of newer versions.
const SeenTable = "seen_versions"

// local is the suffix of the names of the replicas' own tables.
const local = "_local"

// ShardsStatement counts the shards of a cluster.
func ShardsStatement(cluster string) Statement {
	name := "'" + cluster + "'"
	if macro, ok := strings.CutPrefix(cluster, "{"); ok { // as in remote_servers' own functions
		name = "getMacro('" + strings.TrimSuffix(macro, "}") + "')"
	}
	return Statement{
		SQL:       "SELECT uniqExact(shard_num) FROM system.clusters WHERE cluster = " + name,
		OneThread: true,
	}
}

// PartsStatement lists the active parts of the tables that are searched, of newer versions, of documents and of linked
// accounts, on every replica of a cluster of one shard. Its rows are the table, the name, a unique identity, the number
// of rows, and the number of the replica. Each replica that responds also has a row without a table; others are left
// out.
func PartsStatement(cluster string) Statement {
	tables := []string{table, SeenTable, documentsTable, linkedTable}
	if cluster == "" {
		return partsStatement(tables)
	}
	source := "clusterAllReplicas('" + cluster + "', system."
	return Statement{
		SQL: "SELECT replaceOne(table, '" + local +
			"', ''), name, concat(hostName(), ' ', toString(_shard_num), path, ' ', " +
			"hash_of_all_files), rows, _shard_num FROM " + source +
			"parts) WHERE active AND database = currentDatabase() AND table IN ('" +
			strings.Join(tables, local+"', '") + local + "') UNION ALL SELECT '', '', '', toUInt64(0), " +
			"_shard_num FROM " + source + "one)",
		OneThread: true, SkipUnavailable: true,
	}
}

// DocumentPartsStatement is the PartsStatement of a single server for the tables of newer versions and of documents.
func DocumentPartsStatement() Statement { return partsStatement([]string{SeenTable, documentsTable}) }

func partsStatement(tables []string) Statement {
	return Statement{
		SQL: "SELECT table, name, concat(path, ' ', hash_of_all_files), rows, toUInt32(0) FROM system.parts WHERE active " +
			"AND database = currentDatabase() AND table IN ('" + strings.Join(tables, "', '") + "')",
		OneThread: true,
	}
}

// Read returns a statement about parts of the table as a statement that reads its tables on the replica alone: it fails
// if the replica cannot be reached.
func (r Replica) Read(s Statement) Statement {
	if r.Cluster == "" {
		return s
	}
	s.SQL = strings.NewReplacer(
		"FROM "+table+" WHERE ", r.rows(table, "deleted", ""),
		"FROM "+linkedTable+" WHERE ", r.rows(linkedTable, "user_id", ""),
		"FROM "+linkedTable+" FINAL WHERE ", r.rows(linkedTable, "user_id", " FINAL"),
		"FROM "+SeenTable+" WHERE ", r.rows(SeenTable, "key_hash", ""),
	).Replace(s.SQL)
	s.OneReplica = true
	return s
}

// rows returns the FROM clause and the beginning of the WHERE clause that select the rows of the replica's own table.
// A server reads all replicas except those that a condition on the sharding key excludes (_shard_num is none). So the
// key is the index of the replica plus the column times 0, which the condition states to be 0. The column must not be
// one of a table around a subquery.
func (r Replica) rows(of, column, modifiers string) string {
	zero := column + " * 0"
	return "FROM clusterAllReplicas('" + r.Cluster + "', currentDatabase(), " + of + local + ", " + zero + " + " +
		strconv.FormatUint(uint64(r.Number-1), 10) + ")" + modifiers + " WHERE " + zero + " = 0 AND "
}
