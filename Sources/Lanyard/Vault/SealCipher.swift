import CLanyard.OpenSSL
import Glibc

/// AES-256-GCM over one text with one header, by OpenSSL's context of that name.
struct SealCipher: ~Copyable {
    private let context: OpaquePointer

    init() throws(SealingError) {
        guard let context = EVP_CIPHER_CTX_new() else { throw .failed("AES-256-GCM") }
        self.context = context
    }

    deinit { EVP_CIPHER_CTX_free(context) }

    /// Appends the ciphertext of `text` and the tag to `file`, which holds the header.
    func encrypt(
        _ text: UnsafeRawBufferPointer, key: Secret, nonce: [UInt8], into file: inout [UInt8]
    ) throws(SealingError) {
        ERR_clear_error()
        let header = file.count
        file += [UInt8](repeating: 0, count: text.count + SealHeader.tagByteCount)
        let isDone = file.withUnsafeMutableBytes { room in
            let out = room.baseAddress!.assumingMemoryBound(to: UInt8.self)
            var count: CInt = 0
            return key.withBytes { EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nil, Self.bytes($0), nonce) } == 1
                && EVP_EncryptUpdate(context, nil, &count, out, CInt(header)) == 1
                && EVP_EncryptUpdate(context, out + header, &count, Self.bytes(text), CInt(text.count)) == 1
                && Int(count) == text.count && EVP_EncryptFinal_ex(context, out + header + text.count, &count) == 1
                && EVP_CIPHER_CTX_ctrl(
                    context, EVP_CTRL_AEAD_GET_TAG, CInt(SealHeader.tagByteCount), out + header + text.count) == 1
        }
        guard isDone else { throw .failed("AES-256-GCM") }
    }

    /// The text of a whole file with a header of `header` bytes; nil if the tag does not match. The text is not used before that check.
    func decrypt(
        _ file: UnsafeRawBufferPointer, header: Int, key: Secret, nonce: [UInt8]
    ) throws(SealingError) -> Secret? {
        ERR_clear_error()
        let count = file.count - header - SealHeader.tagByteCount
        let bytes = Self.bytes(file)
        // GCM takes the tag through a mutable pointer.
        var tag = Array(file[(header + count)...])
        var isWhole = false
        let text = try Secret(capacity: count) { room throws(SealingError) in
            var written: CInt = 0
            let out = room.baseAddress?.assumingMemoryBound(to: UInt8.self)
            let isReady =
                key.withBytes { EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), nil, Self.bytes($0), nonce) } == 1
                && EVP_DecryptUpdate(context, nil, &written, bytes, CInt(header)) == 1
                && EVP_DecryptUpdate(context, out, &written, bytes + header, CInt(count)) == 1
                && Int(written) == count
                && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, CInt(tag.count), &tag) == 1
            guard isReady else { throw .failed("AES-256-GCM") }
            isWhole = EVP_DecryptFinal_ex(context, out.map { $0 + count }, &written) == 1
            return count
        }
        // A wrong tag leaves an entry in OpenSSL's error queue. This thread's next call would report it.
        ERR_clear_error()
        return isWhole ? text : nil
    }

    /// An empty buffer has no address, and OpenSSL gives a null pointer another meaning.
    private static func bytes(_ buffer: UnsafeRawBufferPointer) -> UnsafePointer<UInt8> {
        (buffer.baseAddress ?? UnsafeRawPointer(bitPattern: 1)!).assumingMemoryBound(to: UInt8.self)
    }
}
