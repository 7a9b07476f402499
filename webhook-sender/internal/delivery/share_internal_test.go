package delivery

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

// Enqueued and restored deliveries share the strings of their endpoint.
func TestItem_SharesStringsWithEndpoint(t *testing.T) {
	now := time.Now()
	enqueued := New(Config{Random: func() float64 { return 0.5 }})
	restored := New(Config{Random: func() float64 { return 0.5 }})
	for _, id := range []string{"one", "two"} {
		task := &event.WebhookTask{
			DeliveryID: id, RequestID: strings.Clone(id), OrganizationID: strings.Clone("o"),
			URL: "https://hooks.example/" + strings.Repeat("x", 1000), CreatedAt: now,
		}
		endpoint, err := task.Endpoint()
		require.NoError(t, err)
		enqueued.Enqueue(task, endpoint.ID(), endpoint.Address, &kafka.Message{}, now)
		value, err := json.Marshal(enqueued.items[endpoint.ID()+"/"+id].state)
		require.NoError(t, err)
		require.NoError(t, restored.Restore([]byte(endpoint.ID()+"/"+id), value))
	}
	for name, m := range map[string]*Scheduler{"enqueued": enqueued, "restored": restored} {
		t.Run(name, func(t *testing.T) {
			require.Len(t, m.items, 2)
			for key, it := range m.items {
				require.Equal(t, key, it.state.Key())
				for _, pair := range [][2]string{
					{it.endpoint.id, it.state.EndpointID}, {it.endpoint.organization, it.state.OrganizationID},
					{it.endpoint.address, it.state.Address}, {key[len(it.endpoint.id)+1:], it.state.DeliveryID},
					{it.state.DeliveryID, it.state.RequestID},
				} {
					require.Equal(t, pair[0], pair[1])
					require.Same(t, unsafe.StringData(pair[0]), unsafe.StringData(pair[1]), pair[0])
				}
			}
		})
	}
}
