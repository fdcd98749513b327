import COpenSSL
import Foundation
import TestSupport

/// An issuer of JSON Web Tokens with a key of its own.
final class ForeignTokenSigner: @unchecked Sendable {
    enum Kind { case rsa, p256 }

    let kind: Kind
    /// A certificate with the public key.
    let certificate: String
    private let key: OpaquePointer

    init(_ kind: Kind) {
        self.kind = kind
        let issued = TestAuthority().issue(key: kind == .rsa ? .rsa(bits: 2048) : .p256)
        certificate = issued.certificate
        key = issued.key.withCString { text in
            let input = BIO_new_mem_buf(text, -1)
            defer { BIO_free(input) }
            return PEM_read_bio_PrivateKey(input, nil, nil, nil)!
        }
    }

    deinit { EVP_PKEY_free(key) }

    var algorithm: String { kind == .rsa ? "RS256" : "ES256" }

    /// The public key in PEM.
    var publicKey: String {
        let output = BIO_new(BIO_s_mem())
        defer { BIO_free(output) }
        PEM_write_bio_PUBKEY(output, key)
        var room = [UInt8](repeating: 0, count: 4096)
        let count = BIO_read(output, &room, CInt(room.count))
        return String(decoding: room.prefix(Int(count)), as: UTF8.self)
    }

    /// The public key as a member of a JWK set.
    func jwk(id: String) -> String {
        switch kind {
        case .rsa:
            #"{"kty":"RSA","kid":"\#(id)","use":"sig","alg":"RS256","n":"\#(number("n"))","e":"\#(number("e"))"}"#
        case .p256: #"{"kty":"EC","kid":"\#(id)","crv":"P-256","x":"\#(number("qx"))","y":"\#(number("qy"))"}"#
        }
    }

    private func number(_ name: String) -> String {
        var number: OpaquePointer?
        EVP_PKEY_get_bn_param(key, name, &number)
        defer { BN_free(number) }
        let size = kind == .p256 ? 32 : Int(BN_num_bits(number) + 7) / 8
        var bytes = [UInt8](repeating: 0, count: size)
        BN_bn2binpad(number, &bytes, CInt(size))
        return Self.encode(bytes)
    }

    /// - Parameter claims: JSON.
    func sign(_ claims: String, id: String? = nil, algorithm: String? = nil) -> String {
        let member = id.map { #","kid":"\#($0)""# } ?? ""
        let header = #"{"alg":"\#(algorithm ?? self.algorithm)","typ":"JWT"\#(member)}"#
        let signed = Self.encode(Array(header.utf8)) + "." + Self.encode(Array(claims.utf8))
        return signed + "." + Self.encode(signature(Array(signed.utf8)))
    }

    private func signature(_ bytes: [UInt8]) -> [UInt8] {
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key)
        var signature = [UInt8](repeating: 0, count: 512)
        var count = signature.count
        EVP_DigestSign(context, &signature, &count, bytes, bytes.count)
        signature = Array(signature.prefix(count))
        return kind == .rsa ? signature : Self.raw(signature)
    }

    /// The two numbers of a DER signature, 32 bytes each.
    private static func raw(_ der: [UInt8]) -> [UInt8] {
        var rest = der.dropFirst(2)
        var numbers: [UInt8] = []
        for _ in 0..<2 {
            let count = Int(rest[rest.startIndex + 1])
            let digits = rest.dropFirst(2).prefix(count).drop { $0 == 0 }
            numbers += [UInt8](repeating: 0, count: 32 - digits.count) + digits
            rest = rest.dropFirst(2 + count)
        }
        return numbers
    }

    /// A token with a shared secret.
    static func hs256(_ claims: String, secret: String, header: String = #"{"alg":"HS256","typ":"JWT"}"#) -> String {
        let signed = encode(Array(header.utf8)) + "." + encode(Array(claims.utf8))
        var digest = [UInt8](repeating: 0, count: 32)
        let bytes = Array(signed.utf8), key = Array(secret.utf8)
        HMAC(EVP_sha256(), key, CInt(key.count), bytes, bytes.count, &digest, nil)
        return signed + "." + encode(digest)
    }

    static func encode(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}
