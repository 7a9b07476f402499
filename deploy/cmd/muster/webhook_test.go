package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/event"
)

func TestHint_NamesTheNextCommand(t *testing.T) {
	const again = "will be retried"
	for _, tc := range []struct {
		status event.WebhookStatus
		class  string
		says   string
	}{
		{event.WebhookPending, "status", "(status), and " + again},
		{event.WebhookPending, "timeout", "(timeout), and " + again},
		{event.WebhookPending, "no_secret", "`muster webhook secret create`"},
		{event.WebhookPending, "redirect", "final address"},
		{event.WebhookPending, "tls", "certificate"},
		{event.WebhookDead, "gone", "`muster webhook endpoint resume ep_1`"},
		{event.WebhookDead, "endpoint_stopped", "`muster webhook endpoint resume ep_1`"},
		{event.WebhookDead, "subject_erased", "erased"},
		{event.WebhookDead, "organization_inactive", "`muster account activate org_1`"},
		{event.WebhookDead, "forbidden_address", "--webhook-allow"},
		{event.WebhookDead, "invalid_url", "`muster webhook resend test-1`"},
		{event.WebhookDead, "task_lost", "`muster webhook resend test-1`"},
	} {
		said := deliveryHint(&event.WebhookAttempt{DeliveryID: "test-1", EndpointID: "ep_1", OrganizationID: "org_1",
			Status: tc.status, Error: tc.class})
		require.Contains(t, said, tc.says, tc.class)
		if tc.status == event.WebhookDead {
			require.NotContains(t, said, again, tc.class)
		}
	}
}

func TestWebhookEndpointResume_RejectsUnknownEndpoints(t *testing.T) {
	addrs := brokertest.Start(t).Addrs()
	require.NoError(t, bus.EnsureTopics(t.Context(), bus.Config{Brokers: addrs}, []bus.Topic{
		{Name: event.TopicWebhookState, Partitions: 1}, {Name: event.TopicWebhookTask, Partitions: 1},
	}))
	c := cli{t: t, env: map[string]string{"KAFKA_BROKERS": addrs[0], "MUSTER_DATA_DIR": t.TempDir()}}
	out, errors := c.run(2, "webhook", "endpoint", "resume", "ep_anything")
	require.Empty(t, out)
	require.Contains(t, errors, "endpoint ep_anything is unknown, or neither stopped nor failing")
}
