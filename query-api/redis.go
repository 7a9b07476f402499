package queryapi

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"muster/platform/tlsclient"
	"muster/query-api/internal/redisguard"
)

// RedisEnv is the environment variable that names the Redis server.
const RedisEnv = "REDIS_URL"

// OpenRedis returns a client for what variables say, as [os.Getenv] gives them. It does not
// wait for the server: while that is away the rate of keys is not limited, and nothing can
// be charged.
//
//	REDIS_URL            redis://user:password@host:6379/0, or rediss:// for TLS; with Sentinels
//	                     redis://user:password@sentinel:26379/0?master_name=NAME&addr=sentinel2:26379&username=...&password=...,
//	                     where the user before the @ is the Sentinels' and the other Redis'
//	REDIS_TLS_CA_FILE    PEM file of the authorities to trust instead of the system's
//	REDIS_TLS_CERT_FILE, REDIS_TLS_KEY_FILE
//	                     PEM files of the client's certificate and its key, for Sentinels too: package tlsclient
func OpenRedis(getenv func(string) string) (redis.UniversalClient, error) {
	files, err := tlsclient.FromEnv(getenv, "REDIS")
	if err != nil {
		return nil, err
	}
	client, err := redisguard.Open(getenv(RedisEnv), files, redisguard.DefaultTimeouts())
	if err != nil {
		return nil, fmt.Errorf("%s is %w", RedisEnv, err)
	}
	return client, nil
}
