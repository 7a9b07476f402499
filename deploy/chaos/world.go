package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"muster/schemas/record"
)

// identity is a record's kind and key.
type identity struct {
	kind record.Kind
	key  string
}

// piece is a file to ingest.
type piece struct {
	kind  record.Kind
	lines []byte
}

// world is the data to feed, and the expected result.
type world struct {
	pieces []piece
	// newest has the version that must be visible.
	newest map[identity]record.Version
	// outside has the identities that other producers wrote too.
	outside map[identity]bool
	// poison is the number of invalid lines in the pieces.
	poison int
}

// versions is the number of versions per record, spread over the pieces in any order: a refresh, a repeated crawl,
// an old dump that arrives late.
const versions = 3

// newWorld generates people of the code host with repositories, people of the network, and links between them.
func newWorld(seed uint64, people int) world {
	rng := rand.New(rand.NewPCG(seed, 2))
	w := world{newest: make(map[identity]record.Version), outside: make(map[identity]bool)}
	perKind := map[record.Kind][][]byte{}
	add := func(kind record.Kind, key, at, line string) {
		v, err := record.ParseVersion(at)
		if err != nil {
			panic("world: " + err.Error()) // the format is a constant
		}
		id := identity{kind, key}
		w.newest[id] = max(w.newest[id], v)
		perKind[kind] = append(perKind[kind], []byte(line))
	}
	for p := range people {
		for range versions {
			at := fmt.Sprintf("2026-%02d-%02dT%02d:%02d:00Z", 1+rng.IntN(9), 1+rng.IntN(28), rng.IntN(24), rng.IntN(60))
			// Some usernames move: p and its neighbor share three.
			name := fmt.Sprintf("user%d", p/2*2+rng.IntN(3))
			other := fmt.Sprintf("pro-%d", p/2*2+rng.IntN(3))
			add(record.KindCodehostPerson, fmt.Sprint(p+1), at, fmt.Sprintf(
				`{"user_id":%d,"codehost_username":%q,"full_name":"Person %d","last_updated":%q,`+
					`"personal_email":"p%d@mail.example","network_username":%q}`,
				p+1, name, p, at, p, other))
			add(record.KindNetworkPerson, fmt.Sprintf("p_%d", p), at, fmt.Sprintf(
				`{"profile_id":"p_%d","username":%q,"full_name":"Person %d","headline":"seen %s","last_updated":%q,`+
					`"emails":["p%d@mail.example"]}`,
				p, other, p, at, at, p))
			repo := rng.IntN(3)
			add(record.KindCodehostRepo, fmt.Sprintf("%d/%d", p+1, 10*p+repo), at, fmt.Sprintf(
				`{"user_id":%d,"id":%d,"name":"r%d","full_name":"%s/r%d","updated_at":%q}`, p+1, 10*p+repo, repo,
				name, repo, at))
		}
	}
	const piecesPerKind = 3
	for _, kind := range []record.Kind{record.KindCodehostPerson, record.KindNetworkPerson, record.KindCodehostRepo} {
		lines := perKind[kind]
		rng.Shuffle(len(lines), func(a, b int) { lines[a], lines[b] = lines[b], lines[a] })
		for i := range piecesPerKind {
			part := lines[i*len(lines)/piecesPerKind : (i+1)*len(lines)/piecesPerKind : (i+1)*len(lines)/piecesPerKind]
			for _, bad := range []string{`{"user_id":`, fmt.Sprintf(`{"note":"piece %d without identity"}`, i)} {
				part = append(part, []byte(bad))
				w.poison++
			}
			w.pieces = append(w.pieces, piece{kind, append(bytes.Join(part, []byte("\n")), '\n')})
		}
	}
	rng.Shuffle(len(w.pieces), func(a, b int) { w.pieces[a], w.pieces[b] = w.pieces[b], w.pieces[a] })
	return w
}
