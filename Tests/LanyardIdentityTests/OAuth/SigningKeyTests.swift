import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSettings

/// Keys that sign, as openssl makes them, and signatures, as openssl verifies them.
@Suite("OAuth: assertions that Lanyard signs") struct SigningKeyTests {
    private static let makers: [(SigningAlgorithm, [String])] = SigningAlgorithm.allCases.map { ($0, maker($0)) }

    private static func maker(_ algorithm: SigningAlgorithm) -> [String] {
        switch algorithm {
        case .rs256, .rs384, .rs512, .ps256, .ps384, .ps512:
            ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
        case .es256: ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        case .es384: ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"]
        case .es512: ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"]
        case .edDSA: ["genpkey", "-algorithm", "ed25519"]
        }
    }

    /// The arguments of openssl's check of a signature, up to the text's file.
    private static func verifier(_ algorithm: SigningAlgorithm, _ publicKey: String, _ signature: String) -> [String] {
        let name = algorithm.rawValue
        guard algorithm != .edDSA else {
            return ["pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", publicKey, "-sigfile", signature, "-in"]
        }
        // The salt is as long as the hash.
        let padding =
            name.hasPrefix("PS") ? ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:digest"] : []
        return ["dgst", "-sha\(name.suffix(3))", "-verify", publicKey, "-signature", signature] + padding
    }

    @discardableResult
    private static func openssl(_ arguments: [String]) throws -> Int32 {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        return process.terminationStatus
    }

    private static func content(_ path: String) throws -> Secret {
        Tokens.secret(try String(contentsOfFile: path, encoding: .utf8))
    }

    private static func decoded(_ part: Substring) throws -> Data {
        let plain = part.replacing("-", with: "+").replacing("_", with: "/")
        return try #require(Data(base64Encoded: plain + String(repeating: "=", count: (4 - plain.count % 4) % 4)))
    }

    @Test("what is signed is verified by openssl, and has the claims of RFC 7523", arguments: makers.map(\.0))
    func signatures(_ algorithm: SigningAlgorithm) throws {
        let folder = try TemporaryFolder()
        let (key, publicKey) = (folder.file("key"), folder.file("public"))
        let maker = try #require(Self.makers.first { $0.0 == algorithm }).1
        #expect(try Self.openssl(maker + ["-out", key]) == 0)
        try Self.openssl(["pkey", "-in", key, "-pubout", "-out", publicKey])
        let signer = try SigningKey(Self.content(key), for: algorithm)
        let token = JSONWebToken(issuer: "lanyard", subject: "lanyard", audience: "https://idp/\"x")
        let now = WallTime(seconds: 1_700_000_000)
        let text = try #require(Tokens.text(token.signed(by: signer, algorithm, keyID: "k1", at: now)))
        let parts = text.split(separator: ".")
        let header = try #require(JSONSerialization.jsonObject(with: Self.decoded(parts[0])) as? [String: String])
        #expect(header == ["alg": algorithm.rawValue, "typ": "JWT", "kid": "k1"])
        let claims = try #require(JSONSerialization.jsonObject(with: Self.decoded(parts[1])) as? [String: Any])
        #expect(claims["iss"] as? String == "lanyard" && claims["aud"] as? String == "https://idp/\"x")
        #expect(claims["iat"] as? Int == 1_699_999_970 && claims["exp"] as? Int == 1_700_000_300)
        #expect((claims["jti"] as? String)?.count == 43)
        try Data("\(parts[0]).\(parts[1])".utf8).write(to: URL(fileURLWithPath: folder.file("text")))
        var signature = try Self.decoded(parts[2])
        if algorithm.rawValue.hasPrefix("ES") {
            #expect(signature.count == [.es256: 64, .es384: 96, .es512: 132][algorithm])
            signature = Self.der(signature)
        }
        try signature.write(to: URL(fileURLWithPath: folder.file("signature")))
        let verify = Self.verifier(algorithm, publicKey, folder.file("signature"))
        #expect(try Self.openssl(verify + [folder.file("text")]) == 0)
        try Data("another text".utf8).write(to: URL(fileURLWithPath: folder.file("text")))
        #expect(try Self.openssl(verify + [folder.file("text")]) != 0)
    }

    /// openssl wants the two numbers of ECDSA in DER.
    private static func der(_ joined: Data) -> Data {
        let numbers = [joined.prefix(joined.count / 2), joined.suffix(joined.count / 2)].map { half -> Data in
            var digits = Data(half.drop { $0 == 0 })
            if digits.first.map({ $0 >= 0x80 }) ?? true { digits.insert(0, at: 0) }
            return Data([2, UInt8(digits.count)]) + digits
        }
        let body = numbers[0] + numbers[1]
        return Data([0x30] + (body.count < 0x80 ? [] : [0x81]) + [UInt8(body.count)]) + body
    }

    @Test("the published signatures of Ed25519 (RFC 8037 A.4) and Ed448 (RFC 8032 7.4)")
    func published() throws {
        func signature(_ key: String, _ text: String) throws -> [UInt8]? {
            let pem = "-----BEGIN PRIVATE KEY-----\n\(key)\n-----END PRIVATE KEY-----\n"
            let signer = try SigningKey(Tokens.secret(pem), for: .edDSA)
            return Array(text.utf8).withUnsafeBytes { signer.signature(of: $0) }
        }
        let text = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
        let short = try signature("MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g", text)
        let expected = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
        #expect(try short == [UInt8](Self.decoded(Substring(expected))))
        let long = try signature(
            "MEcCAQAwBQYDK2VxBDsEOWyCpWLLgI0Q1jK+ichRPr9skp803fqMn2PJlg7240ijUoyKP8wvBE45o/xblEkvjwMudUmiAJj5Ww==", "")
        #expect(long?.map { String(format: "%02x", $0) }.joined() == Self.ed448Signature)
    }

    private static let ed448Signature = """
        533a37f6bbe457251f023c0d88f976ae2dfb504a843e34d2074fd823d41a591f2b233f034f628281f2fd7a22ddd47d7828c59bd0a21bfd39\
        80ff0d2028d4b18a9df63e006c5d1c2d345b925d8dc00b4104852db99ac5c7cdda8530a113a0f4dbb61149f05a7363268c71d95808ff2e65\
        2600
        """

    @Test("each algorithm takes the keys of its kind, and names the kind that it needs for every other one")
    func kinds() throws {
        let folder = try TemporaryFolder()
        let kinds: [String: SigningAlgorithm] = [
            "RSA": .rs256, "P-256": .es256, "P-384": .es384, "P-521": .es512, "Ed25519": .edDSA,
        ]
        for (name, algorithm) in kinds { try Self.openssl(Self.maker(algorithm) + ["-out", folder.file(name)]) }
        for algorithm in SigningAlgorithm.allCases {
            for (name, other) in kinds {
                let content = try Self.content(folder.file(name))
                do throws(SigningKey.KeyError) {
                    _ = try SigningKey(content, for: algorithm)
                    #expect(Self.maker(algorithm) == Self.maker(other), "\(algorithm) \(name)")
                } catch {
                    #expect(
                        error == .unfit(algorithm) && Self.maker(algorithm) != Self.maker(other), "\(algorithm) \(name)"
                    )
                    #expect(error.message.hasSuffix(", which \(algorithm.rawValue) needs"))
                }
            }
        }
    }

    @Test("a key that cannot sign says why: passphrase, other kind, short, no key")
    func unfit() throws {
        let folder = try TemporaryFolder()
        func error(_ path: String, _ algorithm: SigningAlgorithm) throws -> SigningKey.KeyError? {
            let content = try Self.content(path)
            do throws(SigningKey.KeyError) {
                _ = try SigningKey(content, for: algorithm)
                return nil
            } catch { return error }
        }
        let (rsa, ec, short) = (folder.file("rsa"), folder.file("ec"), folder.file("short"))
        try Self.openssl(Self.makers[0].1 + ["-out", rsa])
        try Self.openssl(Self.maker(.es256) + ["-out", ec])
        try Self.openssl(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024", "-out", short])
        try Self.openssl(["pkey", "-in", rsa, "-aes128", "-passout", "pass:x", "-out", folder.file("locked")])
        #expect(try error(folder.file("locked"), .rs256) == .encrypted)
        #expect(try error(rsa, .es256) == .unfit(.es256) && error(ec, .rs256) == .unfit(.rs256))
        #expect(try error(short, .ps256) == .weak)
        try folder.write("text", "no key")
        #expect(try error(folder.file("text"), .rs256) == .notAKey)
        #expect(try error(rsa, .rs256) == nil && error(ec, .es256) == nil)
    }

    @Test("the thumbprint of a certificate in the same file is that of openssl")
    func thumbprint() throws {
        let folder = try TemporaryFolder()
        let (key, certificate) = (folder.file("key"), folder.file("certificate"))
        try Self.openssl(Self.maker(.es256) + ["-out", key])
        try Self.openssl(["req", "-x509", "-key", key, "-subj", "/CN=x", "-days", "1", "-out", certificate])
        try Self.openssl(["x509", "-in", certificate, "-outform", "der", "-out", folder.file("der")])
        try Self.openssl(["dgst", "-sha256", "-binary", "-out", folder.file("digest"), folder.file("der")])
        let both =
            try String(contentsOfFile: key, encoding: .utf8) + String(contentsOfFile: certificate, encoding: .utf8)
        let digest = try Data(contentsOf: URL(fileURLWithPath: folder.file("digest")))
        let signer = try SigningKey(Tokens.secret(both), for: .es256)
        let thumbprint = signer.certificateThumbprint
        #expect(try Self.decoded(Substring(thumbprint ?? "")) == digest)
        let bare = try SigningKey(Self.content(key), for: .es256)
        let none = bare.certificateThumbprint
        #expect(none == nil)
    }
}
