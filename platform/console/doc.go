// Package console writes to terminals what others wrote: records, file names, answers of servers. A terminal obeys some
// characters of what it shows; those are written as escapes, and what goes to a file or a pipe stays as it is, but for what [Line] escapes.
//
// Who draws on a terminal, such as a progress bar, writes to it directly, and passes others' words through [Text] and [Line].
package console
