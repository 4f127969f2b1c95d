/** The package as others meet it: its exports, its declarations, its lock file. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import * as mcprt from '../index.js'

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

test('the declarations and the sources pass tsc', () => {
  execFileSync(process.execPath, [`${folder}node_modules/typescript/bin/tsc`, '--project', `${folder}tsconfig.json`], { encoding: 'utf8' })
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
  const [{ files }] = JSON.parse(execFileSync('npm', ['pack', '--dry-run', '--json', '--offline'], { cwd: folder, encoding: 'utf8' }))
  const paths = files.map((/** @type {{path: string}} */ { path }) => path)
  for (const path of ['index.js', 'index.d.ts', 'lib/runtime.js', 'README.md', 'package.json']) assert.ok(paths.includes(path), path)
  assert.deepEqual(paths.filter((/** @type {string} */ path) => /test|tsconfig|lock|npmrc/.test(path)), [])
})

test('it can be required where Node requires ES modules', () => {
  const require = createRequire(import.meta.url)
  if (process.features.require_module) assert.equal(require('../index.js').Runtime, mcprt.Runtime)
  else assert.throws(() => require('../index.js'), { code: 'ERR_REQUIRE_ESM' })
})
