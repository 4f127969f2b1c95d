package store

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
)

const (
	keyFile = "principal.key"
	keySize = 32
)

// Principal names whoever the values belong to: the resolved environment and header
// values of a server, in an order that the caller keeps stable. Two tenants with
// one config text but different tokens get different names, and since the hash
// is keyed with a random file beside the cache, a name tells nothing about the values.
func (c *Cache) Principal(values []string) (string, error) {
	key, err := c.principalKey()
	if err != nil {
		return "", fmt.Errorf("the key of the tool cache: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	for _, v := range values {
		writePart(mac, v)
	}
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// principalKey reads the key, or makes it, once per process. All processes agree: a
// key is only ever made under the lock, and appears whole.
func (c *Cache) principalKey() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key != nil {
		return c.key, nil
	}
	d, err := openDir(c.path, true)
	if err != nil {
		return nil, err
	}
	defer d.close()
	key, err := d.readKey()
	if key == nil && err == nil {
		key, err = d.makeKey()
	}
	if err != nil {
		return nil, err
	}
	c.key = key
	return key, nil
}

// readKey returns nil when there is no whole key.
func (d *dir) readKey() ([]byte, error) {
	key, err := d.read(keyFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(key) != keySize {
		return nil, nil
	}
	return key, err
}

func (d *dir) makeKey() ([]byte, error) {
	unlock, err := d.lock(keyFile + ".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Another process may have made it while we waited.
	if key, err := d.readKey(); key != nil || err != nil {
		return key, err
	}
	key := make([]byte, keySize)
	rand.Read(key)
	if err := d.write(keyFile, key); err != nil {
		return nil, err
	}
	return key, nil
}
