// Package linked keeps what person search reads of the code-host accounts that network people are linked with
// (readmodel.LinkedTable).
//
// The linked account of a person is the first one of resolution.Stated, as in the API's answers: an account that the
// person's record declares, that declares the person, or that an account-link names. Results of discovery do not count.
//
// Most people have no links. The projector touches changed people whom an account or an account-link names, who name an
// account that exists (readmodel.LinkCandidates), or who have a row, and the usernames of changed account-links. It
// marks the accounts of these links: the builder of answers touches them, and accounts that rows name, after it has
// built them (event.AnswerTask). The consumer ([NewConsumer]) touches the people whom links and accounts concern. Of
// touched people, [Refresher] reads the links and accounts again, and writes the rows that differ.
//
// # Delivery
//
// Touches are at least once, and refreshes are idempotent. A touch is published after the change that it is for is
// visible, so that the last refresh of a person reads all changes. All touches of a person have one key: they are
// handled one after the other. Refreshes of a person may overlap nevertheless: of a consumer that left its group, of a
// replay, of [Watch]. The version of a row is the time at which its refresh began, at least one more than that of the
// row it replaces. A refresh that has written a row reads the person again until nothing differs, so that the last row
// is right whatever the clocks say.
//
// With a search index, a refresh publishes an announcement ([Announce]) before it writes or deletes a row. The consumer
// reads announced people again and touches their documents then. So a document follows its row also if the writer is
// killed in between, and whatever the clocks say.
//
// A refresh checks the suppression set before it reads and after it inserts. An erased person has no row, and an erased
// account is not linked.
//
// On a cluster a replica that lags may show an older account. [Watch] refreshes everyone there every hour.
package linked
