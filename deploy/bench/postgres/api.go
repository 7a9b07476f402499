package postgres

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"muster/schemas/identity"
)

// Handler returns an API with those of muster's calls that the bench compares, without keys, limits and metering. The
// response for an unknown username is `{}`.
func Handler(pool *pgxpool.Pool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/person/enrich", func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Codehost string `json:"codehost"`
		}
		if err := json.UnmarshalRead(r.Body, &request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := findAnswer(r.Context(), pool, "SELECT answer FROM codehost_answers WHERE key = $1",
			request.Codehost)
		write(w, answer, err)
	})
	mux.HandleFunc("GET /v1/webset/network/person", func(w http.ResponseWriter, r *http.Request) {
		answer, err := findAnswer(r.Context(), pool, "SELECT answer FROM network_answers WHERE key = $1",
			r.URL.Query().Get("network"))
		write(w, answer, err)
	})
	mux.HandleFunc("POST /v1/webset/network/person", func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Network []string `json:"network"`
		}
		if err := json.UnmarshalRead(r.Body, &request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := listAnswers(r.Context(), pool, "SELECT key, answer FROM network_answers WHERE key = ANY($1)",
			request.Network)
		write(w, answer, err)
	})
	return mux
}

// findAnswer returns the answer for a username.
func findAnswer(ctx context.Context, pool *pgxpool.Pool, query, username string) (answer []byte, err error) {
	err = pool.QueryRow(ctx, query, identity.NormalizeUsername(username)).Scan(&answer)
	if errors.Is(err, pgx.ErrNoRows) {
		return []byte("{}"), nil
	}
	return answer, err
}

// listAnswers returns an array of the usernames' answers, with one query.
func listAnswers(ctx context.Context, pool *pgxpool.Pool, query string, usernames []string) ([]byte, error) {
	keys := make([]string, len(usernames))
	for i, u := range usernames {
		keys[i] = identity.NormalizeUsername(u)
	}
	rows, err := pool.Query(ctx, query, keys)
	if err != nil {
		return nil, err
	}
	found := make(map[string][]byte, len(keys))
	var key string
	var answer []byte
	if _, err := pgx.ForEachRow(rows, []any{&key, &answer}, func() error {
		found[key], answer = answer, nil
		return nil
	}); err != nil {
		return nil, err
	}
	list := bytes.NewBufferString("[")
	for i, key := range keys {
		if i > 0 {
			list.WriteByte(',')
		}
		if answer, ok := found[key]; ok {
			list.Write(answer)
		} else {
			list.WriteString("{}")
		}
	}
	list.WriteByte(']')
	return list.Bytes(), nil
}

func write(w http.ResponseWriter, answer []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the client may have gone
}
