module github.com/mcprt/mcprt

go 1.26.0

require (
	github.com/goccy/go-json v0.12.0 // indirect
	github.com/mark3labs/mcp-go v1.2.1 // indirect
	github.com/tailscale/hujson v0.0.0-20260727124030-b80ff77dac4f // indirect
	golang.org/x/sync v0.25.0 // indirect
)
