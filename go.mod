module github.com/mcprt/mcprt

go 1.26.0

require (
	github.com/agnivade/levenshtein v1.2.2
	github.com/goccy/go-json v0.12.0
	github.com/gofrs/flock v0.13.2
	github.com/tailscale/hujson v0.0.0-20260727124030-b80ff77dac4f
	golang.org/x/sync v0.25.0
)

require golang.org/x/sys v0.49.0 // indirect
