// Takes the place of swift-argument-parser's Sources/ArgumentParser/Utilities/Foundation.swift in the builds of deploy/package. That file
// is all that would link FoundationEssentials into `lanyard`, a third of the program: JSON for --experimental-dump-help, and
// `LocalizedError`, which no error of ours is.

extension Error {
  func describe() -> String { String(describing: self) }
}

enum JSONEncoder {
  /// The value as JSON, members in the order of their names.
  static func encode<T: Encodable>(_ value: T) -> String {
    let node = JSONNode()
    guard (try? value.encode(to: JSONNodeEncoder(node: node))) != nil else { return "" }
    return node.text(indent: "")
  }
}

/// A value that is being encoded.
private final class JSONNode {
  enum Content {
    case scalar(String)
    case array([JSONNode])
    case object([String: JSONNode])
  }

  var content = Content.scalar("null")

  /// A new member, or the one that is there.
  func member(_ name: String) -> JSONNode {
    guard case .object(var members) = content else { preconditionFailure("not an object") }
    let node = members[name] ?? JSONNode()
    members[name] = node
    content = .object(members)
    return node
  }

  func element() -> JSONNode {
    guard case .array(var elements) = content else { preconditionFailure("not an array") }
    let node = JSONNode()
    elements.append(node)
    content = .array(elements)
    return node
  }

  func encode<T: Encodable>(_ value: T) throws {
    switch value {
    case let value as String: content = .scalar(Self.quoted(value))
    case let value as Bool: content = .scalar(value ? "true" : "false")
    case let value as any BinaryInteger: content = .scalar(String(describing: value))
    case let value as Double where value.isFinite: content = .scalar(String(describing: value))
    case is Double, is Float: throw EncodingError.invalidValue(value, .init(codingPath: [], debugDescription: "no JSON"))
    default: try value.encode(to: JSONNodeEncoder(node: self))
    }
  }

  func text(indent: String) -> String {
    let inner = indent + "  "
    switch content {
    case .scalar(let text): return text
    case .array(let elements):
      if elements.isEmpty { return "[]" }
      return "[\n" + elements.map { inner + $0.text(indent: inner) }.joined(separator: ",\n") + "\n\(indent)]"
    case .object(let members):
      if members.isEmpty { return "{}" }
      let lines = members.sorted { $0.key < $1.key }.map { name, node in
        "\(inner)\(Self.quoted(name)) : \(node.text(indent: inner))"
      }
      return "{\n" + lines.joined(separator: ",\n") + "\n\(indent)}"
    }
  }

  private static func quoted(_ text: String) -> String {
    var quoted = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"", "\\": quoted += "\\\(scalar)"
      case "\n": quoted += "\\n"
      case "\0"..<" ":
        let digits = String(scalar.value, radix: 16)
        quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: quoted.unicodeScalars.append(scalar)
      }
    }
    return quoted + "\""
  }
}

private struct JSONNodeEncoder: Encoder {
  let node: JSONNode
  var codingPath: [any CodingKey] { [] }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    KeyedEncodingContainer(JSONObject<Key>(node))
  }
  func unkeyedContainer() -> any UnkeyedEncodingContainer { JSONArray(node) }
  func singleValueContainer() -> any SingleValueEncodingContainer { JSONScalar(node: node) }
}

// One generic method stands for all that the protocols require for single types.

private struct JSONObject<Key: CodingKey>: KeyedEncodingContainerProtocol {
  let node: JSONNode
  var codingPath: [any CodingKey] { [] }

  init(_ node: JSONNode) {
    self.node = node
    if case .object = node.content { return }
    node.content = .object([:])
  }

  func encodeNil(forKey key: Key) { node.member(key.stringValue).content = .scalar("null") }
  func encode<T: Encodable>(_ value: T, forKey key: Key) throws { try node.member(key.stringValue).encode(value) }
  func nestedContainer<NestedKey>(keyedBy type: NestedKey.Type, forKey key: Key) -> KeyedEncodingContainer<NestedKey> {
    KeyedEncodingContainer(JSONObject<NestedKey>(node.member(key.stringValue)))
  }
  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { JSONArray(node.member(key.stringValue)) }
  func superEncoder() -> any Encoder { JSONNodeEncoder(node: node.member("super")) }
  func superEncoder(forKey key: Key) -> any Encoder { JSONNodeEncoder(node: node.member(key.stringValue)) }
}

private struct JSONArray: UnkeyedEncodingContainer {
  let node: JSONNode
  var codingPath: [any CodingKey] { [] }
  var count: Int {
    guard case .array(let elements) = node.content else { return 0 }
    return elements.count
  }

  init(_ node: JSONNode) {
    self.node = node
    if case .array = node.content { return }
    node.content = .array([])
  }

  func encodeNil() { node.element().content = .scalar("null") }
  func encode<T: Encodable>(_ value: T) throws { try node.element().encode(value) }
  func nestedContainer<NestedKey>(keyedBy type: NestedKey.Type) -> KeyedEncodingContainer<NestedKey> {
    KeyedEncodingContainer(JSONObject<NestedKey>(node.element()))
  }
  func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { JSONArray(node.element()) }
  func superEncoder() -> any Encoder { JSONNodeEncoder(node: node.element()) }
}

private struct JSONScalar: SingleValueEncodingContainer {
  let node: JSONNode
  var codingPath: [any CodingKey] { [] }

  func encodeNil() { node.content = .scalar("null") }
  func encode<T: Encodable>(_ value: T) throws { try node.encode(value) }
}
