/// Reads how tokens of other issuers are verified (emulator.md 3.2): keys, JWK sets, audiences, metadata.
enum TokenSettingsReader {
    typealias ReadError = SeedReader.ReadError
    typealias Members = [(key: String, value: ConfigurationNode)]

    static func customToken(_ members: Members, _ files: SeedFiles, _ line: Int) throws(ReadError)
        -> CustomTokenSettings
    {
        var settings = CustomTokenSettings()
        for (key, value) in members {
            switch key {
            case "keys": for element in try value.elements() { settings.keys.append(try self.key(element, files)) }
            case "jwks", "jwks_file": settings.keys += try keySet(key, value, files)
            case "audience": settings.audience = try value.texts(key)
            case "require_any_audience": settings.isOneAudienceEnough = try value.flag(key)
            case "metadata_fields":
                for element in try value.elements() { settings.metadata.append(try metadataField(element)) }
            default: break
            }
        }
        guard !settings.keys.isEmpty else { throw .init(line: line, "one of keys, jwks, jwks_file is missing") }
        return settings
    }

    static func openID(_ members: Members, _ files: SeedFiles, issuers: [String]) throws(ReadError) -> OpenIDSettings {
        var settings = OpenIDSettings(issuers: issuers)
        for (key, value) in members {
            switch key {
            case "jwks", "jwks_file": settings.keys += try keySet(key, value, files)
            case "client_ids": settings.clientIDs = try value.texts(key)
            case "issuers": settings.issuers = try value.texts(key)
            default: break
            }
        }
        return settings
    }

    private static func key(_ node: ConfigurationNode, _ files: SeedFiles) throws(ReadError) -> VerificationKey {
        var algorithm: VerificationKey.Algorithm?
        var material: (key: String, text: String)?
        for (key, value) in try node.members(["algorithm", "secret", "secret_file", "public_key", "public_key_file"]) {
            if key == "algorithm" {
                algorithm = VerificationKey.Algorithm(rawValue: try value.text(key))
            } else {
                material = (key, try files.text(key, value))
            }
        }
        guard let algorithm else { throw .init(line: node.line, "algorithm is HS256, RS256 or ES256") }
        let name = algorithm == .hs256 ? "secret" : "public_key"
        guard let material, material.key.hasPrefix(name) else {
            throw .init(line: node.line, "\(algorithm.rawValue) needs \(name) or \(name)_file")
        }
        let text = material.text
        do throws(VerificationKey.KeyError) {
            return try VerificationKey(algorithm, text)
        } catch {
            throw .init(line: node.line, error.description)
        }
    }

    /// - Parameter key: a key whose value is a JWK set, or with `_file` at its end, a file of one.
    static func keySet(
        _ key: String, _ node: ConfigurationNode, _ files: SeedFiles
    ) throws(ReadError) -> [VerificationKey] {
        let set: JSONValue
        if !key.hasSuffix("_file") {
            set = node.json
        } else {
            let text = try files.text(key, node)
            guard let value = try? JSONReader.read(Array(text.utf8)) else {
                throw .init(line: node.line, "\(key): no JSON")
            }
            set = value
        }
        do throws(VerificationKey.KeyError) {
            return try JSONWebKeySet.keys(set)
        } catch {
            throw .init(line: node.line, "\(key): \(error.description)")
        }
    }

    private static func metadataField(_ node: ConfigurationNode) throws(ReadError) -> CustomTokenSettings.MetadataField
    {
        var claim: String?, field: String?
        var isRequired = false
        for (key, value) in try node.members(["claim", "field", "required"]) {
            switch key {
            case "claim": claim = try value.text(key)
            case "field": field = try value.text(key)
            default: isRequired = try value.flag(key)
            }
        }
        let path = try AppReader.required(claim, "claim", node)
        // Without a name of its own the field has the claim's last name.
        let name = field ?? JSONValue.names(in: path).last ?? path
        return .init(claim: path, field: name, isRequired: isRequired)
    }
}
