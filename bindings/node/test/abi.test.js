import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { ABI, EventKind, FRAME_HEADER, MINOR, Status, TAG_MAX, Verb } from '../lib/abi.js'

const header = readFileSync(new URL('../../../include/mcprt.h', import.meta.url), 'utf8')

/** @param {RegExp} pattern with the name and the number as groups */
function defines(pattern) {
  return Object.fromEntries([...header.matchAll(pattern)].map(([, name, number]) => [name, Number(number)]))
}

test('every number equals that of the header', () => {
  const { MCPRT_OK: OK, ...rest } = { MCPRT_OK: 0, ...defines(/^#define MCPRT_(E[A-Z]+) +(-\d+)/gm) }
  assert.deepEqual({ OK, ...rest }, { ...Status })
  assert.deepEqual(defines(/^#define MCPRT_((?!ABI|VERSION|F_|FRAME)[A-Z]+) +([1-9]\d*)\b/gm), { ...Verb })
  assert.deepEqual(defines(/^#define MCPRT_EV_([A-Z]+) +(\d+)/gm), { ...EventKind })
  assert.equal(ABI, defines(/^#define MCPRT_(ABI) +(\d+)/gm).ABI)
  assert.ok(MINOR <= defines(/^#define MCPRT_VERSION_(MINOR) +(\d+)/gm).MINOR)
  assert.equal(TAG_MAX, Number(/MCPRT_TAG_MAX UINT64_C\((0x[F]+)\)/.exec(header)?.[1]))
  assert.equal(FRAME_HEADER, Number(/sizeof\(mcprt_frame\) == (\d+)/.exec(header)?.[1]))
})

test('every bound function is declared in the header with the same parameters', () => {
  const source = readFileSync(new URL('../lib/native.js', import.meta.url), 'utf8')
  const bound = [...source.matchAll(/'([^']*?(mcprt_\w+)\(([^)]*)\))'/g)]
  assert.ok(bound.length >= 9)
  for (const [, prototype, name, parameters] of bound) {
    const declared = new RegExp(`MCPRT_API\\s+([\\w *]+?)${name}\\s*\\(([^)]*)\\)`).exec(header)
    assert.ok(declared, `${name} is not in mcprt.h`)
    assert.deepEqual(shape(parameters), shape(declared[2]), prototype)
    assert.equal(type(prototype.slice(0, prototype.indexOf(name))), type(declared[1]), prototype)
  }
})

/** @param {string} parameters */
function shape(parameters) {
  return parameters.replace(/\s+/g, ' ').split(',').map((parameter) => type(parameter.trim()))
}

/** The machine's view of a C type: pointers are alike, typedefs are what they stand for. @param {string} declaration */
function type(declaration) {
  if (declaration.includes('*')) return 'pointer'
  const word = declaration.trim().split(' ')[0]
  return { mcprt_mgr: 'uint64_t', mcprt_status: 'int32_t' }[word] ?? word
}
