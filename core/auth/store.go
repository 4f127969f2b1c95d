package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/safe"
	"github.com/mcprt/mcprt/core/store"
)

// memory keeps credentials as long as it lives.
type memory struct {
	mu     sync.Mutex
	values map[string][]byte
	locks  map[string]chan struct{}
}

// NewMemory makes a store that ends with the process.
func NewMemory() Store {
	return &memory{values: map[string][]byte{}, locks: map[string]chan struct{}{}}
}

func (m *memory) Load(key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key], nil
}

func (m *memory) Save(key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = value
	return nil
}

func (m *memory) Delete(key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
	return nil
}

func (m *memory) Lock(ctx context.Context, key string) (func(), error) {
	m.mu.Lock()
	lock := m.locks[key]
	if lock == nil {
		lock = make(chan struct{}, 1)
		m.locks[key] = lock
	}
	m.mu.Unlock()
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ring keeps values in the keyring of the operating system. A file says which are
// there: a keyring is asked only for what was put into it, since asking may open a
// window, and what else it may still hold after somebody signed out elsewhere is void.
// Locks are files, too: no keyring has any.
type ring struct {
	files Store
	also  bool // values may stand in the files, where the keyring does not take them
}

// NewKeyring makes a store in the user's keyring: the Keychain, the Credential
// Manager, or a Secret Service. files has what is not secret.
func NewKeyring(files Store) Store { return ring{files, false} }

// NewAuto makes the store of "auto": the keyring where it works, else files.
func NewAuto(files Store) Store { return ring{files, true} }

// inRing is the file of a value that is in the keyring.
var inRing = []byte("keyring")

const (
	service = "mcprt"
	// ringPatience bounds one request: a keyring may ask the person to unlock it.
	ringPatience = 10 * time.Second
)

// patiently runs what a keyring may leave unanswered for ever.
func patiently(f func() error) error {
	done := make(chan error, 1)
	safe.Go(func(bug *fault.Error) { done <- bug }, func() { done <- f() })
	timer := time.NewTimer(ringPatience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("the keyring did not answer within %s", ringPatience)
	}
}

func (r ring) Load(key string) (value []byte, err error) {
	value, err = r.files.Load(key)
	if err != nil || !bytes.Equal(value, inRing) {
		return value, err
	}
	var text string
	err = patiently(func() (err error) {
		text, err = keyring.Get(service, key)
		return err
	})
	if errors.Is(err, keyring.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the keyring cannot be read: %w", err)
	}
	if value, err = base64.StdEncoding.DecodeString(text); err != nil {
		return nil, nil // not ours
	}
	return value, nil
}

func (r ring) Save(key string, value []byte) error {
	text := base64.StdEncoding.EncodeToString(value)
	err := patiently(func() error { return keyring.Set(service, key, text) })
	switch {
	case err == nil:
		return r.files.Save(key, inRing)
	case r.also:
		return r.files.Save(key, value)
	}
	return fmt.Errorf("the keyring does not take it: %w", err)
}

func (r ring) Delete(key string) error {
	value, err := r.files.Load(key)
	if err != nil {
		return err
	}
	// The file first: what stays in a keyring without one is void.
	if err := r.files.Delete(key); err != nil || !bytes.Equal(value, inRing) {
		return err
	}
	err = patiently(func() error { return keyring.Delete(service, key) })
	if err == nil || errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("the keyring does not delete it: %w", err)
}

func (r ring) Lock(ctx context.Context, key string) (func(), error) { return r.files.Lock(ctx, key) }

// NewFiles makes a store of 0600 files in the directory at an absolute path.
func NewFiles(dir string) (Store, error) { return store.OpenSecrets(dir) }
