// Package websearch asks web search services for profile pages: SearXNG, Brave,
// Tavily and Exa, each with its own request and response.
//
// [Query] is written from what a profile says of itself ([Queries]); of the
// results only those are kept that are a person's profile on a platform that
// muster knows ([Searcher.Find]). What a result's title and snippet say is a
// stranger's text: it is compared, never followed.
package websearch
