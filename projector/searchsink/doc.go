// Package searchsink writes the documents of network people and companies to OpenSearch, each to their own index.
//
// [Sink] consumes touches, reads rows of search_people and search_companies and indexes whole documents. At its first
// start it creates the indexes and fills them from the tables. [Replay] fills new indexes beside the live ones,
// compares them with the tables and switches the aliases. [Purger] removes deleted people from the files of their
// index.
//
// # Delivery
//
// At least once, idempotent by version. The version of a document is the position of the touch that it was written for:
// generation and offset. A touch is published after the row is durable and the row is read after the touch, so the
// newest touch has the newest content; a late write of a consumer that left its group has an older version and is
// rejected by OpenSearch. The generation grows when the topic is recreated or repartitioned. Offsets are committed
// after the bulk request was acknowledged. A document of a scan of the table has the lowest version.
//
// Overload and outages are retried without limit, behind a breaker. A document that OpenSearch refuses goes to the
// topic of rejected records, with the type of the error.
//
// People and companies that were withdrawn, and people in the suppression set, are deleted from the index.
package searchsink
