/** The package as others meet it: its exports, its declarations, its lock file. */

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import * as mcprt from '../index.js'
import { libraryName, platformPackage, toolName } from '../lib/platform.js'

const folder = fileURLToPath(new URL('..', import.meta.url))
const manifest = JSON.parse(readFileSync(`${folder}package.json`, 'utf8'))
const declarations = readFileSync(`${folder}index.d.ts`, 'utf8')

/** @param {string} name @returns {string[]} the members that index.d.ts declares */
function declaredMembers(name) {
  const body = new RegExp(`^export declare class ${name}\\b[^{]*\\{\\n(.*?)^\\}`, 'ms').exec(declarations)?.[1] ?? ''
  return [...new Set([...body.matchAll(/^  (?:readonly )?(\w+)\??[:(]/gm)].map(([, member]) => member))]
}

test('what is declared is exported, and nothing else', () => {
  const declared = [...declarations.matchAll(/^export declare (?:class|const|function) (\w+)/gm)].map(([, name]) => name)
  assert.deepEqual(Object.keys(mcprt).sort(), declared.sort())
})

test('the declared members of the classes exist, and no others', () => {
  for (const name of /** @type {const} */ (['Runtime', 'CallResult', 'Result', 'Tool'])) {
    const members = declaredMembers(name).filter((member) => member !== 'constructor')
    const own = Object.getOwnPropertyNames(mcprt[name].prototype).filter((member) => member !== 'constructor')
    assert.ok(own.length > 0)
    assert.deepEqual(own.sort(), members.sort(), name)
  }
})

test('a program whose tsconfig names no types gets the declarations all the same', (t) => {
  const program = mkdtempSync(join(folder, 'program-')) // below here, so that @types/node is found as beside an installed package
  t.after(() => rmSync(program, { recursive: true }))
  writeFileSync(join(program, 'agent.mts'), `import { Runtime } from '../index.js'
const runtime = await Runtime.open()
runtime.on('log', (event) => event.level)
export const raw: Uint8Array = (await runtime.call('x')).raw
`)
  writeFileSync(join(program, 'tsconfig.json'), '{"compilerOptions": {"module": "nodenext", "target": "es2022", "strict": true, "noEmit": true}}')
  const { status, stdout } = spawnSync('npx', ['tsc', '--project', program], { cwd: folder, encoding: 'utf8' })
  assert.equal(status, 0, stdout)
})

test('the declarations and the sources pass tsc and tsd', () => {
  execFileSync('npm', ['run', '--silent', 'types'], { cwd: folder, encoding: 'utf8' })
})

test('every dependency is pinned, and the lock file names no registry', () => {
  const lock = JSON.parse(readFileSync(`${folder}package-lock.json`, 'utf8'))
  for (const [name, version] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
    assert.match(String(version), /^\d+\.\d+\.\d+$/, name)
    assert.equal(lock.packages[`node_modules/${name}`].version, version)
  }
  for (const [name, entry] of Object.entries(lock.packages)) {
    assert.equal(entry.resolved, undefined, name)
    if (name) assert.match(entry.integrity, /^sha512-/, name)
  }
})

test('the version is that of the library', () => {
  const header = readFileSync(new URL('../../../include/mcprt.h', import.meta.url), 'utf8')
  const version = ['MAJOR', 'MINOR', 'PATCH'].map((part) => new RegExp(`MCPRT_VERSION_${part} (\\d+)`).exec(header)?.[1]).join('.')
  assert.equal(manifest.version, version)
})

test('the package holds its files and no tests', () => {
  const target = mkdtempSync(join(tmpdir(), 'mcprt-pack-'))
  try {
    const build = join(target, 'build')
    mkdirSync(build)
    for (const file of [libraryName(), toolName()]) writeFileSync(join(build, file), file)
    const cpu = process.arch === 'arm64' ? 'x64' : 'arm64'
    const tarballs = execFileSync(process.execPath, [`${folder}pack.js`, target, build, `linux-${cpu}=${build}`, `linux-${cpu}-musl=${build}`], { encoding: 'utf8' }).trim().split('\n')
    const listing = (/** @type {string} */ tarball) => execFileSync('tar', ['tf', tarball], { encoding: 'utf8' }).trim().split('\n').map((path) => path.replace(/^package\//, ''))
    const packed = (/** @type {string} */ tarball) => JSON.parse(execFileSync('tar', ['xOf', tarball, 'package/package.json'], { encoding: 'utf8' }))
    const [ours, other, musl, main] = tarballs
    assert.deepEqual(listing(ours).sort(), ['LICENSE', 'README.md', `bin/${toolName()}`, libraryName(), 'package.json'].sort())
    assert.deepEqual(listing(other).sort(), ['LICENSE', 'README.md', 'bin/mcprt', 'libmcprt.so.0', 'package.json'].sort())
    const { name, version, os, cpu: cpus, libc } = packed(other)
    assert.deepEqual({ name, version, os, cpus, libc }, { name: `@mcprt/linux-${cpu}-gnu`, version: manifest.version, os: ['linux'], cpus: [cpu], libc: ['glibc'] })
    assert.deepEqual(listing(musl).sort(), ['LICENSE', 'README.md', 'bin/mcprt', 'package.json'])
    assert.deepEqual([packed(musl).name, packed(musl).libc], [`@mcprt/linux-${cpu}-musl`, ['musl']])
    const { optionalDependencies, dependencies, devDependencies, scripts } = packed(main)
    assert.deepEqual(optionalDependencies, { [platformPackage()]: manifest.version, [`@mcprt/linux-${cpu}-gnu`]: manifest.version, [`@mcprt/linux-${cpu}-musl`]: manifest.version })
    assert.deepEqual({ dependencies, devDependencies, scripts }, { dependencies: manifest.dependencies, devDependencies: undefined, scripts: undefined })
    const lib = readdirSync(`${folder}lib`).map((file) => `lib/${file}`)
    assert.deepEqual(listing(main).sort(), [...lib, 'LICENSE', 'README.md', 'ai.d.ts', 'ai.js', 'bin/mcprt.js', 'index.d.cts', 'index.d.ts', 'index.js', 'package.json'].sort())
  } finally {
    rmSync(target, { recursive: true })
  }
})

test("the command line tool of the checkout is run, with its exit status", () => {
  const run = (/** @type {string[]} */ ...args) => spawnSync(process.execPath, [`${folder}bin/mcprt.js`, ...args], { encoding: 'utf8' })
  assert.match(run('version').stdout, new RegExp(manifest.version.replaceAll('.', '\\.')))
  assert.equal(run('nothing').status, 2)
})

test('it can be required, and is the same package then', () => {
  const require = createRequire(import.meta.url)
  assert.equal(require('../index.js').Runtime, mcprt.Runtime)
})
