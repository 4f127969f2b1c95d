package auth

import (
	"slices"
	"testing"
	"time"

	"github.com/goccy/go-json"
)

// TestUserFaults: see core/userfaults_test.go.
func TestUserFaults(t *testing.T) {
	t.Run("D9 a stored token that has expired", func(t *testing.T) {
		w := newWorld(t)
		store := NewMemory()
		c := w.credentials(store)
		w.mustSignIn(c)
		g, err := c.load()
		if err != nil || g == nil {
			t.Fatal(err)
		}
		stale := g.Access
		g.ObtainedAt, g.ExpiresAt = g.ObtainedAt.Add(-2*time.Hour), g.ExpiresAt.Add(-2*time.Hour)
		raw, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Save(c.key, raw); err != nil {
			t.Fatal(err)
		}
		w.expire()
		w.mu.Lock()
		w.seen = nil
		w.mu.Unlock()
		// The next process: its first request must carry a new token, not the old one.
		if status, body, _ := w.credentials(store).get(t, w.rs.URL+"/mcp"); status != 200 {
			t.Errorf("%d %s", status, body)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.seen) != 1 || slices.Contains(w.seen, "Bearer "+stale) {
			t.Errorf("the server saw %q", w.seen)
		}
	})
}
