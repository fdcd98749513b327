import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSettings

/// Keys that sign, as openssl makes them, and signatures, as openssl verifies them.
@Suite("OAuth: assertions that Lanyard signs") struct SigningKeyTests {
    private static let makers: [(SigningAlgorithm, [String])] = [
        (.rs256, ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]),
        (.ps256, ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]),
        (.es256, ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
    ]

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
        if algorithm == .es256 { signature = Self.der(signature) }
        try signature.write(to: URL(fileURLWithPath: folder.file("signature")))
        let padding = algorithm == .ps256 ? ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32"] : []
        let verify = ["dgst", "-sha256", "-verify", publicKey, "-signature", folder.file("signature")] + padding
        #expect(try Self.openssl(verify + [folder.file("text")]) == 0)
        try Data("another text".utf8).write(to: URL(fileURLWithPath: folder.file("text")))
        #expect(try Self.openssl(verify + [folder.file("text")]) != 0)
    }

    /// openssl wants the two numbers of ECDSA in DER.
    private static func der(_ joined: Data) -> Data {
        let numbers = [joined.prefix(32), joined.suffix(32)].map { half -> Data in
            var digits = Data(half.drop { $0 == 0 })
            if digits.first.map({ $0 >= 0x80 }) ?? true { digits.insert(0, at: 0) }
            return Data([2, UInt8(digits.count)]) + digits
        }
        let body = numbers[0] + numbers[1]
        return Data([0x30, UInt8(body.count)]) + body
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
        try Self.openssl(Self.makers[2].1 + ["-out", ec])
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
        try Self.openssl(Self.makers[2].1 + ["-out", key])
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
