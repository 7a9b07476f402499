// Package console writes untrusted text to terminals: records, file names, responses of servers. A terminal interprets
// some characters, which are written as escapes there. Output to a file or a pipe is unchanged, except for what [Line]
// escapes.
//
// Code that draws on a terminal, such as a progress bar, writes to it directly and passes untrusted text through [Text]
// and [Line].
package console
