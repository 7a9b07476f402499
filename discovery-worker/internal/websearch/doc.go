// Package websearch finds profile pages with web search services: SearXNG, Brave, Tavily and Exa.
//
// [Queries] builds queries from a profile. [Searcher.Find] returns only results that are a person's
// profile on a supported platform. Titles and snippets are untrusted text: they are compared, never
// followed.
package websearch
