// Package tree reads JSON and XML into one kind of tree, whose members keep their order.
//
// Every [Node] knows its JSON pointer. XML has the index of an element for a pointer; [ParseXML] returns where each
// stands in the
// text. Depth and number of values are bounded by schemas/event.
package tree
