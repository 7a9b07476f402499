// Package answers builds the answers of code-host accounts: one row for each account with everything that the API
// returns for it.
//
// A touch ([Touch]) requests the build of an account. [NewConsumer] builds the touched accounts in batches, inside the
// engine, from the tables of accounts, repositories and commits; accounts with thousands of rows have a consumer of
// their own ([NewLargeConsumer]). [Watch] compares answers with their rows and touches those that differ. [Rebuild]
// builds answers without a touch, for replays and erasures.
//
// # Delivery
//
// Touches are at least once, and builds are idempotent. The version of an answer is the position of its touch: the
// generation of the topic, which grows when the topic is recreated, and the offset. The newest touch wins, so a late
// insert of a builder that left its group changes nothing. A touch without effect, as after a crash, is found by
// [Watch] within an hour.
//
// Answers of people who were erased during a build are deleted before the touches are committed.
package answers
