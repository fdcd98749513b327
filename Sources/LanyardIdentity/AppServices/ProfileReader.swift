import LanyardFoundations

/// Reads profiles on their bytes (app-services-accounts.md 4.1).
enum ProfileReader {
    private static let depthMax = 64

    /// The profile without white space and without members whose text carries a token: a picture's URL at Facebook has
    /// the user's `access_token`.
    ///
    /// - Returns: nil if it is not a JSON object.
    static func withoutTokens(_ bytes: UnsafeRawBufferPointer) -> Secret? {
        var reader = JSONReader(bytes, depthMax: depthMax)
        var copy = JSONCopy(of: bytes)
        do throws(JSONError) {
            var token = try reader.next()
            guard token == .objectStart else { return nil }
            while token != .end {
                guard case .name(let name) = token else {
                    copy.append(token)
                    token = try reader.next()
                    continue
                }
                token = try reader.next()
                if case .string(let text) = token, carriesToken(text, bytes) {
                    token = try reader.next()
                } else {
                    copy.append(.name(name))
                }
            }
        } catch {
            return nil
        }
        return copy.seal()
    }

    /// `{"user_id", "identities": [{"id", "provider_type"}]}` of a profile.
    ///
    /// - Returns: nil if it is not a profile.
    static func identities(_ bytes: UnsafeRawBufferPointer) -> Secret? {
        var reader = JSONReader(bytes, depthMax: depthMax)
        var userID: JSONReader.Text?
        var identities: [(id: JSONReader.Text, provider: JSONReader.Text)] = []
        do throws(JSONError) {
            guard try reader.next() == .objectStart else { return nil }
            while case .name(let name) = try reader.next() {
                if JSONText.matches(name, of: bytes, "user_id") {
                    let value = try reader.next()
                    if value == .objectStart || value == .arrayStart { try OAuthResponse.skipRest(of: &reader) }
                    if case .string(let text) = value { userID = text }
                } else if JSONText.matches(name, of: bytes, "identities") {
                    let value = try reader.next()
                    // Go writes an empty list so.
                    if value == .null { continue }
                    guard value == .arrayStart else { return nil }
                    while try reader.next() == .objectStart {
                        guard let next = try identity(&reader, bytes) else { return nil }
                        identities.append(next)
                    }
                } else {
                    try reader.skipValue()
                }
            }
            _ = try reader.next()
        } catch {
            return nil
        }
        var copy = JSONCopy(of: bytes)
        copy.append(.objectStart)
        copy.append(key: "user_id")
        copy.append(userID.map { .string($0) } ?? .null)
        copy.append(key: "identities")
        copy.append(.arrayStart)
        for identity in identities {
            copy.append(.objectStart)
            copy.append(key: "id")
            copy.append(.string(identity.id))
            copy.append(key: "provider_type")
            copy.append(.string(identity.provider))
            copy.append(.objectEnd)
        }
        copy.append(.arrayEnd)
        copy.append(.objectEnd)
        return copy.seal()
    }

    private static func identity(
        _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer
    ) throws(JSONError) -> (id: JSONReader.Text, provider: JSONReader.Text)? {
        var (id, provider): (JSONReader.Text?, JSONReader.Text?)
        while case .name(let name) = try reader.next() {
            let isID = JSONText.matches(name, of: bytes, "id")
            guard isID || JSONText.matches(name, of: bytes, "provider_type") else {
                try reader.skipValue()
                continue
            }
            guard case .string(let text) = try reader.next() else { return nil }
            if isID { id = text } else { provider = text }
        }
        guard let id, let provider else { return nil }
        return (id, provider)
    }

    private static func carriesToken(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) -> Bool {
        let wanted = Array("access_token".utf8)
        var matched = 0
        var isFound = false
        JSONText.decode(text, of: bytes) { byte in
            let lowered = 0x41...0x5a ~= byte ? byte | 0x20 : byte
            // `a` occurs at the beginning only, so a failed match starts again.
            matched = lowered == wanted[matched] ? matched + 1 : lowered == wanted[0] ? 1 : 0
            if matched == wanted.count {
                isFound = true
                matched = 0
            }
        }
        return isFound
    }
}

/// Reads user API keys (app-services-accounts.md 4.4): `_id` becomes `id`.
enum APIKeyReader {
    private struct Key {
        var id: JSONReader.Text
        var name: JSONReader.Text
        var isDisabled: Bool
        var value: JSONReader.Text?
    }

    /// One key.
    ///
    /// - Parameter withValue: the key itself must be there, as after its creation. Otherwise it is left out.
    static func key(_ bytes: UnsafeRawBufferPointer, withValue: Bool) -> Secret? {
        var reader = JSONReader(bytes)
        var copy = JSONCopy(of: bytes)
        do throws(JSONError) {
            guard try reader.next() == .objectStart, let key = try members(&reader, bytes), try reader.next() == .end,
                key.value != nil || !withValue
            else { return nil }
            write(key, withValue: withValue, into: &copy)
        } catch {
            return nil
        }
        return copy.seal()
    }

    /// `{"api_keys": […]}`.
    static func list(_ bytes: UnsafeRawBufferPointer) -> Secret? {
        var reader = JSONReader(bytes)
        var copy = JSONCopy(of: bytes)
        copy.append(.objectStart)
        copy.append(key: "api_keys")
        copy.append(.arrayStart)
        do throws(JSONError) {
            var token = try reader.next()
            // A server may send null for no keys.
            guard token == .arrayStart || token == .null else { return nil }
            while token != .end {
                token = try reader.next()
                guard token == .objectStart else { continue }
                guard let key = try members(&reader, bytes) else { return nil }
                write(key, withValue: false, into: &copy)
            }
        } catch {
            return nil
        }
        copy.append(.arrayEnd)
        copy.append(.objectEnd)
        return copy.seal()
    }

    /// The members of an object that is open already.
    private static func members(
        _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer
    ) throws(JSONError) -> Key? {
        var (id, name, value): (JSONReader.Text?, JSONReader.Text?, JSONReader.Text?)
        var isDisabled = false
        while case .name(let member) = try reader.next() {
            if JSONText.matches(member, of: bytes, "_id") {
                guard let text = try identifier(&reader, bytes) else { return nil }
                id = text
            } else if JSONText.matches(member, of: bytes, "name") {
                guard let text = try string(&reader) else { return nil }
                name = text
            } else if JSONText.matches(member, of: bytes, "key") {
                let token = try reader.next()
                if token == .objectStart || token == .arrayStart { try OAuthResponse.skipRest(of: &reader) }
                if case .string(let text) = token { value = text }
            } else if JSONText.matches(member, of: bytes, "disabled") {
                switch try reader.next() {
                case .bool(let value): isDisabled = value
                case .null: break
                default: return nil
                }
            } else {
                try reader.skipValue()
            }
        }
        guard let id, let name else { return nil }
        return Key(id: id, name: name, isDisabled: isDisabled, value: value)
    }

    private static func string(_ reader: inout JSONReader) throws(JSONError) -> JSONReader.Text? {
        guard case .string(let text) = try reader.next() else { return nil }
        return text
    }

    /// A string, or extended JSON's `{"$oid": "…"}`.
    private static func identifier(
        _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer
    ) throws(JSONError) -> JSONReader.Text? {
        switch try reader.next() {
        case .string(let text): return text
        case .objectStart:
            var id: JSONReader.Text?
            while case .name(let name) = try reader.next() {
                guard JSONText.matches(name, of: bytes, "$oid"), let text = try string(&reader) else { return nil }
                id = text
            }
            return id
        default: return nil
        }
    }

    private static func write(_ key: Key, withValue: Bool, into copy: inout JSONCopy) {
        copy.append(.objectStart)
        copy.append(key: "id")
        copy.append(.string(key.id))
        copy.append(key: "name")
        copy.append(.string(key.name))
        copy.append(key: "disabled")
        copy.append(.bool(key.isDisabled))
        if withValue, let value = key.value {
            copy.append(key: "key")
            copy.append(.string(value))
        }
        copy.append(.objectEnd)
    }
}
