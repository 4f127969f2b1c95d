/** Reads index.d.ts with TypeScript's own parser: what it declares, and what of it has no documentation. */

import ts from '@tsd/typescript'
import { readFileSync } from 'node:fs'

const PATH = new URL('../index.d.ts', import.meta.url)

function parse() {
  return ts.createSourceFile('index.d.ts', readFileSync(PATH, 'utf8'), ts.ScriptTarget.Latest, true)
}

/** @returns {string} the declarations without comments, one form whatever the layout */
export function publicApi() {
  return ts.createPrinter({ removeComments: true }).printFile(parse())
}

/** @returns {string[]} paths such as "RuntimeOptions.cache.dir" of what an editor has nothing to say about */
export function undocumented() {
  /** @type {string[]} */
  const missing = []
  /** @param {import('@tsd/typescript').Node} node @param {string} path */
  function visit(node, path) {
    const name = /** @type {any} */ (node).name?.getText()
    const where = name ? (path ? `${path}.${name}` : name) : path
    if (isShown(node) && !says(node) && ts.getJSDocCommentsAndTags(node).length === 0) missing.push(where)
    ts.forEachChild(node, (child) => visit(child, where))
  }
  for (const statement of parse().statements) {
    const isExported = ts.canHaveModifiers(statement) && ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
    if (isExported) visit(statement, '')
  }
  return missing
}

/** What a person points at. @param {import('@tsd/typescript').Node} node */
function isShown(node) {
  return (
    ts.isClassDeclaration(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node) || ts.isVariableStatement(node) || ts.isFunctionDeclaration(node) ||
    ts.isPropertySignature(node) || ts.isMethodSignature(node) || ts.isPropertyDeclaration(node) || ts.isMethodDeclaration(node) || ts.isGetAccessor(node)
  )
}

/** A type that says all: the one word of an event's type, a class that is documented itself. @param {import('@tsd/typescript').Node} node */
function says(node) {
  const type = /** @type {any} */ (node).type
  return type !== undefined && (ts.isTypeQueryNode(type) || (ts.isLiteralTypeNode(type) && ts.isStringLiteral(type.literal)))
}
