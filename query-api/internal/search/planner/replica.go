package planner

import "strings"

// Replica says where parts are read: on the server itself, or on one replica of a cluster of one shard. Its host is
// known from PartsStatement.
type Replica struct {
	Cluster string // in remote_servers; empty: there is none
	Host    string
}

// The tables of PartsStatement.
const (
	PeopleTable    = table
	SeenTable      = "seen_versions"
	DocumentsTable = "network_people"
)

// local is what the names of the replicas' own tables end with.
const local = "_local"

// ShardsStatement counts the shards of a cluster.
func ShardsStatement(cluster string) Statement {
	return Statement{SQL: "SELECT count() FROM cluster('" + cluster + "', system.one)", OneThread: true}
}

// PartsStatement lists the active parts of search_people, seen_versions and network_people, on every replica of a
// cluster. Its rows are the table, the name, an identity that no other part ever has, the number of rows, and the host.
// Replicas that do not answer are left out.
func PartsStatement(cluster string) Statement {
	source, suffix, host := "system.parts", "", "''"
	if cluster != "" {
		source, suffix, host = "clusterAllReplicas('"+cluster+"', system.parts)", local, "hostName()"
	}
	tables := []string{PeopleTable, SeenTable, DocumentsTable}
	for i, t := range tables {
		tables[i] = "'" + t + suffix + "'"
	}
	return Statement{
		SQL: "SELECT replaceOne(table, '" + local + "', ''), name, concat(" + host + ", path, ' ', hash_of_all_files), rows, " + host +
			" AS host FROM " + source + " WHERE active AND database = currentDatabase() AND table IN (" + strings.Join(tables, ", ") + ")",
		OneThread: true, SkipUnavailable: cluster != "",
	}
}

// Read returns a statement that reads parts of search_people as it reads them of the replica.
func (r Replica) Read(s Statement) Statement {
	if r.Cluster == "" {
		return s
	}
	quoted := strings.NewReplacer("\\", `\\`, "'", `\'`).Replace(r.Host)
	s.SQL = strings.ReplaceAll(s.SQL, "FROM "+table+" WHERE _part ", "FROM clusterAllReplicas('"+r.Cluster+"', currentDatabase(), "+
		table+local+") WHERE hostName() = '"+quoted+"' AND _part ")
	s.SkipUnavailable = true
	return s
}
