package idempotency

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a [Store] shared by replicas.
type Redis struct {
	client redis.UniversalClient
	prefix string

	begin, renew, complete, delete, deleteUnserved *redis.Script
}

// NewRedis returns a store whose keys start with prefix.
func NewRedis(client redis.UniversalClient, prefix string) *Redis {
	return &Redis{
		client: client, prefix: prefix,
		begin: redis.NewScript(`
local v = redis.call('HMGET', KEYS[1], 'fingerprint', 'answer', 'given', 'owner')
if v[1] then
  if v[1] ~= ARGV[1] then return {'mismatch'} end
  if v[2] then
    if not v[3] then redis.call('HSET', KEYS[1], 'given', 1) end
    return {'stored', v[2]}
  end
  if v[4] ~= ARGV[2] then return {'running'} end
end
redis.call('HSET', KEYS[1], 'fingerprint', ARGV[1], 'owner', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'new'}`),
		renew: redis.NewScript(`
local v = redis.call('HMGET', KEYS[1], 'owner', 'answer')
if v[1] ~= ARGV[1] or v[2] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`),
		complete: redis.NewScript(`
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'answer', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`),
		delete: redis.NewScript(`
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`),
		deleteUnserved: redis.NewScript(`
local v = redis.call('HMGET', KEYS[1], 'owner', 'given')
if v[1] ~= ARGV[1] then return 0 end
if v[2] then return 1 end
redis.call('DEL', KEYS[1])
return 0`),
	}
}

// Begin implements [Store].
func (r *Redis) Begin(
	ctx context.Context, name, fingerprint, owner string, lease time.Duration,
) (State, []byte, error) {
	reply, err := r.begin.Run(ctx, r.client, []string{r.prefix + name}, fingerprint, owner,
		lease.Milliseconds()).StringSlice()
	if err != nil {
		return 0, nil, fmt.Errorf("redis: begin: %w", err)
	}
	switch {
	case len(reply) == 1 && reply[0] == "new":
		return New, nil, nil
	case len(reply) == 1 && reply[0] == "running":
		return Running, nil, nil
	case len(reply) == 1 && reply[0] == "mismatch":
		return Mismatch, nil, nil
	case len(reply) == 2 && reply[0] == "stored":
		return Stored, []byte(reply[1]), nil
	}
	return 0, nil, fmt.Errorf("redis: begin: unexpected reply of %d parts", len(reply))
}

// Renew implements [Store].
func (r *Redis) Renew(ctx context.Context, name, owner string, lease time.Duration) error {
	if err := r.renew.Run(ctx, r.client, []string{r.prefix + name}, owner, lease.Milliseconds()).Err(); err != nil {
		return fmt.Errorf("redis: renew: %w", err)
	}
	return nil
}

// Complete implements [Store].
func (r *Redis) Complete(ctx context.Context, name, owner string, value []byte, ttl time.Duration) error {
	if err := r.complete.Run(ctx, r.client, []string{r.prefix + name}, owner, value,
		ttl.Milliseconds()).Err(); err != nil {
		return fmt.Errorf("redis: complete: %w", err)
	}
	return nil
}

// Delete implements [Store].
func (r *Redis) Delete(ctx context.Context, name, owner string) error {
	if err := r.delete.Run(ctx, r.client, []string{r.prefix + name}, owner).Err(); err != nil {
		return fmt.Errorf("redis: delete: %w", err)
	}
	return nil
}

// DeleteUnserved implements [Store].
func (r *Redis) DeleteUnserved(ctx context.Context, name, owner string) (bool, error) {
	served, err := r.deleteUnserved.Run(ctx, r.client, []string{r.prefix + name}, owner).Bool()
	if err != nil {
		return false, fmt.Errorf("redis: delete unserved: %w", err)
	}
	return served, nil
}
