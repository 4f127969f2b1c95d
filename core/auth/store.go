package auth

import (
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

// ring keeps values in the keyring of the operating system, and locks by files.
type ring struct{ files Store }

// NewKeyring makes a store in the user's keyring: the Keychain, the Credential
// Manager, or a Secret Service. files gives the locks between processes, which no
// keyring has.
func NewKeyring(files Store) Store { return ring{files} }

const (
	service = "mcprt"
	// ringPatience bounds one request: a keyring may ask the person to unlock it.
	ringPatience = 30 * time.Second
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
	if err := patiently(func() error { return keyring.Set(service, key, text) }); err != nil {
		return fmt.Errorf("the keyring does not take it: %w", err)
	}
	return nil
}

func (r ring) Delete(key string) error {
	err := patiently(func() error { return keyring.Delete(service, key) })
	if err == nil || errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("the keyring does not delete it: %w", err)
}

func (r ring) Lock(ctx context.Context, key string) (func(), error) { return r.files.Lock(ctx, key) }

// both is "auto": the keyring where it works, else files. What a keyring is too small
// for, or does not take, goes into a file; a file is read only where the keyring has
// nothing newer, so that the two never disagree.
type both struct{ ring, files Store }

// NewAuto makes the store of "auto".
func NewAuto(files Store) Store { return both{NewKeyring(files), files} }

func (b both) Load(key string) ([]byte, error) {
	value, err := b.files.Load(key)
	if value != nil || err != nil {
		return value, err
	}
	if value, err = b.ring.Load(key); err != nil {
		return nil, nil // no keyring runs here, and no file is there
	}
	return value, nil
}

func (b both) Save(key string, value []byte) error {
	if err := b.ring.Save(key, value); err == nil {
		return b.files.Delete(key)
	}
	return b.files.Save(key, value)
}

func (b both) Delete(key string) error {
	_ = b.ring.Delete(key) // where none runs nothing is kept in it
	return b.files.Delete(key)
}

func (b both) Lock(ctx context.Context, key string) (func(), error) { return b.files.Lock(ctx, key) }

// NewFiles makes a store of 0600 files in the directory at an absolute path.
func NewFiles(dir string) (Store, error) { return store.OpenSecrets(dir) }
