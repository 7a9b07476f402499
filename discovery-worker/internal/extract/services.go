package extract

import (
	"regexp"
	"strings"

	"muster/schemas/identity"
)

// platformNames are the names by which texts call the platforms, in labelKey's form.
var platformNames = map[string]string{ //nolint:gochecknoglobals // a constant table
	"github": identity.Codehost, "git hub": identity.Codehost, "gh": identity.Codehost, "codehost": identity.Codehost, "github com": identity.Codehost,
	"linkedin": identity.Network, "linked in": identity.Network, "network": identity.Network, "linkedin com": identity.Network,
	"twitter": identity.Microblog, "x": identity.Microblog, "microblog": identity.Microblog, "x com": identity.Microblog,
	"twitter com": identity.Microblog, "twitter x": identity.Microblog, "x twitter": identity.Microblog, "x formerly twitter": identity.Microblog,
}

// platformNamed is the platform that a name calls, "" for any other service.
func platformNamed(s string) string { return platformNames[labelKey(strings.ToLower(s))] }

// otherServices are networks that have no field in a profile.
var otherServices = regexp.MustCompile(`(?i)^(?:facebook|instagram|insta|youtube|tiktok|mastodon|bluesky|threads|reddit|pinterest|snapchat|telegram|whatsapp|signal|discord|slack|twitch` +
	`|medium|substack|dev\.?to|hashnode|stack ?overflow|stack ?exchange|quora|gitlab|bitbucket|codeberg|sourcehut|kaggle|hugging ?face|leetcode|hackerrank|codepen|npm|pypi|docker ?hub` +
	`|orcid|google ?scholar|researchgate|academia(?:\.edu)?|publons|xing|viadeo|vk|vkontakte|weibo|wechat|line|qq|douban|zhihu|behance|dribbble|deviantart|artstation|flickr|500px|vimeo` +
	`|soundcloud|spotify|bandcamp|goodreads|letterboxd|strava|steam|skype|keybase|angellist|wellfound|product ?hunt|hacker ?news|indie ?hackers|patreon|ko-?fi|gravatar|about\.me|linktree)$`)

// isService reports whether a phrase is the name of a service with accounts.
func isService(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) < 30 && (platformNamed(s) != "" || otherServices.MatchString(s))
}
