import COpenSSL
import FlyingFox
import Foundation

/// Reads a request's body, always to its end: FlyingFox reads the next request from where the reading stopped.
enum RequestBody {
    /// A JWT credential may have a million characters.
    static let bytesMax = 2 << 20

    /// The body as JSON. An empty body counts as an empty object.
    ///
    /// - Throws: `.tooLarge`, or `.malformed` for other text and for a client that closed early.
    static func json(_ request: HTTPRequest) async throws(ServiceError) -> JSONValue {
        var data = Data()
        do {
            for try await part in request.bodySequence where data.count <= bytesMax { data.append(part) }
        } catch {
            throw .malformed
        }
        guard data.count <= bytesMax else { throw .tooLarge }
        if data.isEmpty { return .object([:]) }
        guard let value = try? JSONValue(data: data), value.object != nil else { throw .malformed }
        return value
    }

    /// Reads the body without keeping it. Returns its length and SHA-256.
    static func digest(_ request: HTTPRequest) async throws -> (count: Int, sha256: String) {
        let digest = RunningDigest()
        var count = 0
        for try await part in request.bodySequence {
            digest.update(part)
            count += part.count
        }
        return (count, digest.hex())
    }
}

/// An incremental SHA-256, for bodies that are not kept.
final class RunningDigest {
    private let context = EVP_MD_CTX_new()

    init() { EVP_DigestInit_ex(context, EVP_sha256(), nil) }

    func update(_ data: Data) { data.withUnsafeBytes { _ = EVP_DigestUpdate(context, $0.baseAddress, $0.count) } }

    /// Finishes the digest. Returns it in lower-case hex.
    func hex() -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        EVP_DigestFinal_ex(context, &digest, nil)
        return Identifiers.hex(digest)
    }

    deinit { EVP_MD_CTX_free(context) }
}
