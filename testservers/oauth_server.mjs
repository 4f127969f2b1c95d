// An OAuth 2.1 and OpenID Connect server for the tests (oidc-provider): it rotates
// refresh tokens, and revokes the whole grant when one comes twice. Everybody is signed
// in, and agrees, at once; the rest is as that server does it.
//
//   node oauth_server.mjs PORT RESOURCE
//
// GET /test/life?seconds=N sets how long access tokens live from now on, GET
// /test/counts tells how many tokens were given by which grant, and how many refusals
// there were.
import Provider from 'oidc-provider'

const [port, resource] = process.argv.slice(2)
const issuer = `http://127.0.0.1:${port}`
let life = 3600
const counts = { authorization_code: 0, refresh_token: 0, refused: 0 }

const provider = new Provider(issuer, {
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  scopes: ['openid', 'offline_access', 'mcp'],
  cookies: { keys: ['of no use: everything here is thrown away'] },
  clientDefaults: { token_endpoint_auth_method: 'none' },
  rotateRefreshToken: true,
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, indicator) => {
        if (indicator !== resource) throw new Error(`unknown resource ${indicator}`)
        return { scope: 'mcp', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: life }
      },
    },
  },
  ttl: { RefreshToken: 86400, Grant: 86400, Session: 86400, Interaction: 600 },
  interactions: { url: (_, interaction) => `/test/agree/${interaction.uid}` },
})

provider.on('grant.success', (ctx) => { counts[ctx.oidc.params.grant_type] += 1 })
provider.on('grant.error', () => { counts.refused += 1 })

provider.use(async (ctx, next) => {
  const { pathname, searchParams } = new URL(ctx.url, issuer)
  if (pathname === '/test/life') {
    life = Number(searchParams.get('seconds'))
    ctx.body = {}
  } else if (pathname === '/test/counts') {
    ctx.body = counts
  } else if (pathname.startsWith('/test/agree/')) {
    const { prompt, params, session } = await provider.interactionDetails(ctx.req, ctx.res)
    const result = {}
    if (prompt.name === 'login') {
      result.login = { accountId: 'somebody' }
    } else {
      const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id })
      grant.addOIDCScope(params.scope ?? '')
      grant.addResourceScope(resource, 'mcp')
      result.consent = { grantId: await grant.save() }
    }
    const to = await provider.interactionResult(ctx.req, ctx.res, result, { mergeWithLastSubmission: true })
    ctx.redirect(to)
  } else {
    await next()
  }
})

provider.listen(Number(port), '127.0.0.1')
