// Package tree parses JSON and XML into one kind of tree, with members in order.
//
// Every [Node] knows its JSON pointer. For XML the pointer is the index of an element, and
// [ParseXML] returns the range of each. Depth and number of values are limited by schemas/event.
package tree
