package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// errKey says what a key must be; never what it is.
var errKey = errors.New("oauth.privateKeyPem is no private key in PEM form (PKCS#8, or the older RSA and EC forms)")

func parseKey(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errKey
	}
	for _, parse := range []func([]byte) (any, error){
		x509.ParsePKCS8PrivateKey,
		func(b []byte) (any, error) { return x509.ParseECPrivateKey(b) },
		func(b []byte) (any, error) { return x509.ParsePKCS1PrivateKey(b) },
	} {
		if key, err := parse(block.Bytes); err == nil {
			if signer, ok := key.(crypto.Signer); ok {
				return signer, nil
			}
		}
	}
	return nil, errKey
}

// algorithm is the usual one of a kind of key.
func algorithm(key crypto.Signer) jose.SignatureAlgorithm {
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		switch k.Curve {
		case elliptic.P384():
			return jose.ES384
		case elliptic.P521():
			return jose.ES512
		}
		return jose.ES256
	case ed25519.PrivateKey:
		return jose.EdDSA
	case *rsa.PrivateKey:
		return jose.RS256
	}
	return ""
}

// assertionLife is long enough for clocks that differ a little.
const assertionLife = 2 * time.Minute

// clientAssertion is who we are as a signed statement (RFC 7523 section 2.2).
func (c *Credentials) clientAssertion(audience string) (string, error) {
	key, err := parseKey(c.cfg.PrivateKey)
	if err != nil {
		return "", err
	}
	alg := jose.SignatureAlgorithm(c.cfg.Algorithm)
	if alg == "" {
		alg = algorithm(key)
	}
	options := (&jose.SignerOptions{}).WithType("JWT")
	if c.cfg.KeyID != "" {
		options.WithHeader("kid", c.cfg.KeyID)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		return "", errors.New("oauth.signingAlgorithm does not fit the private key")
	}
	now := time.Now()
	signed, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: c.cfg.ClientID, Subject: c.cfg.ClientID, Audience: jwt.Audience{audience}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now.Add(-10 * time.Second)), Expiry: jwt.NewNumericDate(now.Add(assertionLife)),
	}).Serialize()
	if err != nil {
		return "", errors.New("oauth.signingAlgorithm does not fit the private key")
	}
	return signed, nil
}

// newBoundKey makes the key of DPoP (RFC 9449), ES256: what every server has.
func newBoundKey() (text string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}

// proof shows for one request that we have the key (RFC 9449 section 4.2).
func proof(key, method string, u *url.URL, nonce, access string) (string, error) {
	signerKey, err := parseKey(key)
	if err != nil {
		return "", errors.New("the stored key of the sign-in is damaged")
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: signerKey}, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	if err != nil {
		return "", err
	}
	claims := map[string]any{"jti": rand.Text(), "htm": method, "htu": u.Scheme + "://" + u.Host + u.EscapedPath(), "iat": time.Now().Unix()}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	if access != "" {
		sum := sha256.Sum256([]byte(access))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}
