package sampledata

import (
	"fmt"
	"strconv"
	"strings"
)

// maxRepos is the maximum number of repositories of one account.
const maxRepos = 64

// activity is how much an account publishes and in which form its crawler delivers it.
type activity struct {
	repos, commits int
	embed          bool // embedded lists
	separate       bool // separate records
	complete       bool // the newest embedded lists are marked complete
}

func (w *world) activity(e int) activity {
	r := rng(mix(w.seed, streamRepos, uint64(e)))
	var a activity
	switch w.class(e) {
	case classCompany, classCommunity:
		a.repos = 2 + power(&r, 5, 0.6, maxRepos-2)
	case classBot:
		a.repos, a.commits = r.n(2), 1+r.n(12)
	case classPerson:
		if r.chance(28.6) { // a tenth of all people: about 10 repositories and 20 commits
			a.repos = 4 + r.n(7) + r.n(7)
			a.commits = 8 + r.n(13) + r.n(13)
			if r.chance(2) {
				a.repos = 30 + r.n(maxRepos-30)
				a.commits *= 3
			}
		} else if r.chance(52) {
			a.repos, a.commits = r.n(3), r.n(3)
		}
	}
	switch u := r.n(100); {
	case u < 34:
		a.embed = true
	case u < 44:
		a.embed, a.separate = true, true
	default:
		a.separate = true
	}
	a.complete = a.embed && !a.separate && r.chance(30)
	return a
}

// repo is the k-th repository of an account.
type repo struct {
	id                      uint64
	name, description, lang string
	topics                  []string
	created, removed        int64 // removed 0: exists
	pushes                  [3]int64
	stars, forks            int
	fork                    bool
	parent                  string
	archived                bool
}

func (w *world) repoName(e, k int) string {
	r := rng(mix(w.seed, streamRepos, uint64(e), 1000+uint64(k)))
	wd := w.lx.words
	var s string
	switch u := r.n(100); {
	case u < 22:
		s = r.pick(wd["repo.names"])
	case u < 30:
		s = strings.ToUpper(r.pick(wd["repo.a"])[:1]) + r.pick(wd["repo.b"])
	default:
		s = r.pick(wd["repo.a"]) + r.pick([]string{"-", "-", "_", ""}) + r.pick(wd["repo.b"])
	}
	if k > 2 && r.chance(40) || k > 12 {
		s += "-" + strconv.Itoa(k)
	}
	return s
}

func (w *world) repo(a *account, k int, tech []int) repo {
	e := a.entity
	r := rng(mix(w.seed, streamRepos, uint64(e), uint64(k)+1))
	x := repo{id: w.permRepo.at(uint64(e)*maxRepos+uint64(k)) + 1_000_000, name: w.repoName(e, k)}
	span := max(w.now-a.created-40*day, day)
	x.created = (a.created + int64(r.f()*float64(span))) / 1000 * 1000
	for i := range x.pushes {
		from := x.created
		if i > 0 {
			from = x.pushes[i-1]
		}
		x.pushes[i] = (from + int64(r.f()*r.f()*float64(max(w.now-from-day, 2000)))) / 1000 * 1000
	}
	t := r.n(len(w.lx.techNames))
	if len(tech) > 0 && r.chance(78) {
		t = tech[min(r.n(len(tech)), r.n(len(tech)))]
	}
	x.lang = w.lx.techNames[t]
	if r.chance(58) {
		x.topics = sample(&r, w.lx.techTopics[t], 1+r.n(4))
		if r.chance(20) {
			x.topics = append(x.topics, r.pick([]string{"hacktoberfest", "awesome", "demo", "学习", "beginner-friendly"}))
		}
	}
	ctx := strings.NewReplacer("{a}", r.pick(w.lx.words["repo.a"]), "{b}", r.pick(w.lx.words["repo.b"]), "{lang}",
		x.lang, "{topic}", r.pick(w.lx.techTopics[t]))
	if r.chance(66) {
		x.description = ctx.Replace(r.pick(w.lx.words["repo.desc"]))
	}
	if r.chance(9) {
		x.lang = ""
	}
	scale := 1.2
	if w.class(e) != classPerson {
		scale = 9
	}
	x.stars = power(&r, scale, 0.85, 250_000)
	x.forks = x.stars / (3 + r.n(9))
	if r.chance(16) {
		o := w.someCodehost(&r)
		x.fork, x.stars = true, x.stars/20
		x.parent = w.handleAt(w.account(o, onCodehost), w.now) + "/" + x.name
	}
	if r.chance(4) {
		x.removed = x.pushes[2] + int64(r.f()*float64(max(w.now-x.pushes[2]-day, 1000)))/1000*1000 + 1000
	}
	x.archived = r.chance(5)
	return x
}

// pushedAt returns the newest change visible to a crawl at a time.
func (x *repo) pushedAt(at int64) int {
	n := 0
	for n < len(x.pushes)-1 && x.pushes[n+1] <= at {
		n++
	}
	return n
}

func (x *repo) exists(at int64) bool {
	return x.pushes[0] <= at && (x.removed == 0 || x.removed > at)
}

func (w *world) techFor(e int) []int {
	if w.class(e) != classPerson {
		r := rng(mix(w.seed, streamRepos, uint64(e), 9999))
		return []int{r.n(8), r.n(len(w.lx.techNames))}
	}
	return w.person(e).tech
}

func (w *world) repoCount(a *account, act activity, at int64) int {
	n := 0
	for k := range act.repos {
		r := rng(mix(w.seed, streamRepos, uint64(a.entity), uint64(k)+1))
		span := max(w.now-a.created-40*day, day)
		if a.created+int64(r.f()*float64(span)) <= at {
			n++
		}
	}
	return n
}

// writeRepo writes the repository as of its n-th push. Its content is a function of updated_at, so that a
// version has only one content.
func (w *world) writeRepo(o *object, a *account, x *repo, n int, standalone bool) {
	o.open()
	if standalone {
		o.num("user_id", w.userID(a.entity))
	}
	o.num("id", int64(x.id))
	owner := w.handleAt(a, x.pushes[n])
	o.str("name", x.name)
	o.str("full_name", owner+"/"+x.name)
	r := rng(mix(x.id, 5))
	o.loose(&r, "description", w.dirty(&r, x.description))
	if x.lang != "" {
		o.str("language", x.lang)
	} else {
		o.null("language")
	}
	share := float64(n+1) / float64(len(x.pushes))
	o.num("stargazers_count", int64(float64(x.stars)*share))
	o.num("forks_count", int64(float64(x.forks)*share))
	if len(x.topics) > 0 || r.chance(70) {
		o.list("topics", x.topics)
	}
	if x.fork {
		o.boolean("fork", true)
		if r.chance(50) {
			o.openKey("parent")
			o.str("full_name", x.parent)
			o.close()
		}
	} else if r.chance(30) {
		o.boolean("fork", false)
	}
	if x.archived {
		o.boolean("archived", true)
	}
	if r.chance(15) {
		o.num("open_issues_count", int64(r.n(40)))
	}
	o.instant("created_at", x.created)
	o.instant("updated_at", x.pushes[n])
	o.close()
}

// writeCommit writes the k-th commit of an account, which never changes.
func (w *world) writeCommit(o *object, a *account, act activity, k int, p *person, tech []int, standalone bool) {
	e := a.entity
	at := w.commitDate(a, k)
	r := rng(mix(w.seed, streamCommits, uint64(e), uint64(k)))
	o.open()
	if standalone {
		o.num("user_id", w.userID(e))
	}
	o.str("sha", hex16(r.next())+hex16(r.next())+hex16(r.next())[:8])
	o.str("message", w.message(&r))
	handle := w.handleAt(a, at)
	name, mail := w.signature(a, p, at, handle, &r)
	o.loose(&r, "author_name", name)
	o.loose(&r, "author_email", mail)
	if r.chance(92) {
		o.str("author_login", handle)
	} else {
		o.null("author_login")
	}
	o.instant("author_date", at)
	owner, n := a, 0
	switch u := r.n(100); {
	case u < 68 && act.repos > 0:
		n = r.n(act.repos)
	case u < 90 && p != nil:
		if j := p.jobAt(monthOf(at)); j != nil && w.state[w.firstCompany+int(j.company)].on(onCodehost) {
			owner = w.account(w.firstCompany+int(j.company), onCodehost)
			break
		}
		fallthrough
	default:
		owner = w.account(w.someCodehost(&r), onCodehost)
	}
	if owner != a {
		n = r.n(3)
		tech = w.techFor(owner.entity)
	}
	x := w.repo(owner, n, tech)
	o.openKey("repo")
	o.str("full_name", w.handleAt(owner, at)+"/"+x.name)
	if x.lang != "" {
		o.str("language", x.lang)
	} else {
		o.null("language")
	}
	o.close()
	o.close()
}

func (w *world) commitDate(a *account, k int) int64 {
	r := rng(mix(w.seed, streamCommits, uint64(a.entity), uint64(k), 3))
	return (a.created + int64(r.f()*float64(w.now-a.created-day))) / 1000 * 1000
}

func (w *world) message(r *rng) string {
	wd := w.lx.words
	if r.chance(24) {
		return strings.ReplaceAll(r.pick(wd["commit.full"]), "{n}", strconv.Itoa(1+r.n(900)))
	}
	s := r.pick(wd["commit.verb"]) + " " + r.pick(wd["commit.object"])
	switch u := r.n(100); {
	case u < 14:
		s = r.pick([]string{"fix: ", "feat: ", "chore: ", "docs(readme): ", "refactor: ", "perf: ", "test: "}) +
			strings.ToLower(s[:1]) + s[1:]
	case u < 20:
		s = strings.ToLower(s)
	case u < 25:
		s += " (#" + strconv.Itoa(1+r.n(4000)) + ")"
	case u < 29:
		s = r.pick(wd["emoji"]) + " " + s
	}
	for i := 0; r.chance(16) && i < 3; i++ {
		s += "\n\n" + strings.ReplaceAll(r.pick(wd["commit.body"]), "{n}", strconv.Itoa(2+r.n(98)))
	}
	return s
}

// signature returns name and address of an author's version-control settings, which often identify the person
// better than the profile.
func (w *world) signature(a *account, p *person, at int64, handle string, r *rng) (name, mail string) {
	noreply := fmt.Sprintf("%d+%s@users.noreply.codehost.example", w.userID(a.entity), handle)
	if p == nil {
		return handle, noreply
	}
	s := rng(mix(w.seed, streamCommits, uint64(a.entity), 1<<40))
	switch u := s.n(100); {
	case u < 46:
		name = p.name.latin(0, false)
	case u < 58:
		name = plain(p.name.latin(0, false))
	case u < 66:
		name, _, _ = p.name.parts(0)
	case u < 72 && p.name.given.native != "":
		name = p.name.nativeFull()
	case u < 76 && len(p.name.given.nicks) > 0:
		name = p.name.given.nicks[0].latin
	default:
		name = handle
	}
	mail = noreply
	mine := w.addresses(p, monthOf(at))
	if u := s.n(100); u < 42 {
		mail = mine.personal
	} else if u < 60 && mine.work != "" {
		mail = mine.work
	}
	if r.chance(6) { // another machine
		name, mail = handle, handle+"@localhost.example"
	}
	return name, mail
}

// embedded writes the lists inside a person record.
func (w *world) embedded(o *object, a *account, act activity, v int) {
	if !act.embed {
		return
	}
	t := a.content[v]
	tech := w.techFor(a.entity)
	complete := act.complete && v == len(a.versions)-1
	if act.repos > 0 {
		o.openListKey("repos")
		for k := range act.repos {
			if act.separate && k >= 5 {
				break
			}
			if x := w.repo(a, k, tech); x.exists(t) {
				w.writeRepo(o, a, &x, x.pushedAt(t), false)
			}
		}
		o.closeList()
		if complete {
			o.boolean("repos_complete", true)
		}
	}
	if act.commits > 0 {
		var p *person
		if w.class(a.entity) == classPerson {
			p = w.person(a.entity)
		}
		o.openListKey("commits")
		for k := range act.commits {
			if act.separate && k >= 5 {
				break
			}
			if w.commitDate(a, k) <= t {
				w.writeCommit(o, a, act, k, p, tech, false)
			}
		}
		o.closeList()
		if complete && a.content[v] == a.versions[v].at {
			o.boolean("commits_complete", true)
		}
	}
}
