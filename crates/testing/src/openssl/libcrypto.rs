//! The functions of libcrypto that the tests call, found at run time: building the tests takes no
//! OpenSSL.

use tabane_provider::abi::Param;

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions of libcrypto.
        #[allow(non_snake_case)]
        pub struct Functions {
            $(#[doc = concat!("`", stringify!($name), "`, as in its manual \
            page.")] pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// # Safety
            ///
            /// `library` is a libcrypto of OpenSSL 3.
            unsafe fn find(library: *mut c_void) -> Self {
                Self {
                    $($name: {
                        let name = CString::new(stringify!($name)).unwrap();
                        // SAFETY: an open library and a string.
                        let address = unsafe { dlsym(library, name.as_ptr()) };
                        assert!(!address.is_null(), "libcrypto has {name:?}");
                        // SAFETY: the type is that of the manual page.
                        unsafe {
                            core::mem::transmute::<*mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?>(address)
                        }
                    },)*
                }
            }
        }
    };
}

/// Whatever OpenSSL knows by its address.
pub type Pointer = *mut c_void;

functions! {
    OSSL_LIB_CTX_new() -> Pointer;
    OSSL_LIB_CTX_free(Pointer);
    OSSL_LIB_CTX_load_config(Pointer, *const c_char) -> c_int;
    OSSL_PROVIDER_unload(Pointer) -> c_int;
    EVP_CIPHER_free(Pointer);
    OSSL_PROVIDER_set_default_search_path(Pointer, *const c_char) -> c_int;
    OSSL_PROVIDER_load(Pointer, *const c_char) -> Pointer;
    OSSL_PROVIDER_add_builtin(Pointer, *const c_char, Pointer) -> c_int;
    ERR_clear_error();
    ERR_peek_error() -> u64;

    ASYNC_WAIT_CTX_new() -> Pointer;
    ASYNC_WAIT_CTX_free(Pointer);
    ASYNC_WAIT_CTX_get_all_fds(Pointer, *mut c_int, *mut usize) -> c_int;
    ASYNC_start_job(*mut Pointer, Pointer, *mut c_int, unsafe extern "C" fn(*mut c_void) -> c_int,
        *mut c_void, usize) -> c_int;

    EVP_MD_fetch(Pointer, *const c_char, *const c_char) -> Pointer;
    EVP_MD_get_size(Pointer) -> c_int;
    EVP_MD_get_block_size(Pointer) -> c_int;
    EVP_MD_get_flags(Pointer) -> u64;
    EVP_MD_get_type(Pointer) -> c_int;
    EVP_MD_get0_description(Pointer) -> *const c_char;
    EVP_MD_settable_ctx_params(Pointer) -> *const Param;
    EVP_MD_CTX_ctrl(Pointer, c_int, c_int, *mut c_void) -> c_int;
    EVP_MD_CTX_new() -> Pointer;
    EVP_MD_CTX_free(Pointer);
    EVP_MD_CTX_reset(Pointer) -> c_int;
    EVP_MD_CTX_copy_ex(Pointer, Pointer) -> c_int;
    EVP_DigestInit_ex2(Pointer, Pointer, *const Pointer) -> c_int;
    EVP_DigestUpdate(Pointer, *const c_uchar, usize) -> c_int;
    EVP_DigestFinal_ex(Pointer, *mut c_uchar, *mut u32) -> c_int;
    EVP_CIPHER_fetch(Pointer, *const c_char, *const c_char) -> Pointer;
    EVP_CIPHER_get_block_size(Pointer) -> c_int;
    EVP_CIPHER_get_key_length(Pointer) -> c_int;
    EVP_CIPHER_get_iv_length(Pointer) -> c_int;
    EVP_CIPHER_get_mode(Pointer) -> c_int;
    EVP_CIPHER_get_flags(Pointer) -> u64;
    EVP_CIPHER_get_nid(Pointer) -> c_int;
    EVP_CIPHER_get0_description(Pointer) -> *const c_char;
    EVP_CIPHER_settable_ctx_params(Pointer) -> *const Param;
    EVP_CIPHER_gettable_ctx_params(Pointer) -> *const Param;
    EVP_CIPHER_CTX_new() -> Pointer;
    EVP_CIPHER_CTX_free(Pointer);
    EVP_CIPHER_CTX_reset(Pointer) -> c_int;
    EVP_CIPHER_CTX_copy(Pointer, Pointer) -> c_int;
    EVP_CipherInit_ex2(Pointer, Pointer, *const c_uchar, *const c_uchar, c_int,
        *const Pointer) -> c_int;
    EVP_CipherUpdate(Pointer, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int;
    EVP_CipherFinal_ex(Pointer, *mut c_uchar, *mut c_int) -> c_int;
    EVP_Cipher(Pointer, *mut c_uchar, *const c_uchar, u32) -> c_int;
    EVP_CIPHER_CTX_set_padding(Pointer, c_int) -> c_int;
    EVP_CIPHER_CTX_get_num(Pointer) -> c_int;
    EVP_CIPHER_CTX_get_iv_length(Pointer) -> c_int;
    EVP_CIPHER_CTX_get_original_iv(Pointer, *mut c_void, usize) -> c_int;
    EVP_CIPHER_CTX_get_updated_iv(Pointer, *mut c_void, usize) -> c_int;
    EVP_CIPHER_CTX_ctrl(Pointer, c_int, c_int, *mut c_void) -> c_int;
    EVP_CIPHER_CTX_set_params(Pointer, *const Param) -> c_int;
    EVP_CIPHER_CTX_get_params(Pointer, *mut Param) -> c_int;
    EVP_Digest(*const c_uchar, usize, *mut c_uchar, *mut u32, Pointer, Pointer) -> c_int;
}

/// libcrypto with the provider and the default one.
pub struct Libcrypto {
    /// What it can do.
    pub functions: Functions,
    /// An `OSSL_LIB_CTX`.
    pub context: Pointer,
}

// SAFETY: libcrypto's functions lock their shared state.
unsafe impl Send for Libcrypto {}
// SAFETY: libcrypto's functions lock their shared state.
unsafe impl Sync for Libcrypto {}

/// The folder with the provider as `tabane.so`.
pub fn modules() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        let built = program.with_file_name("libtabane_provider.so");
        assert!(built.exists(), "cargo has built {}", built.display());
        let folder = program.with_file_name("openssl-modules");
        // Several tests may do this at once.
        let _ = std::fs::create_dir(&folder);
        let link = folder.join(format!("tabane.so.{}", std::process::id()));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(built, &link).unwrap();
        std::fs::rename(link, folder.join("tabane.so")).unwrap();
        folder
    })
}

/// A configuration with the provider and the default one. `settings` goes to the provider's
/// section.
pub fn configuration(settings: &str) -> String {
    let module = modules().join("tabane.so");
    format!(
        "openssl_conf = init\n[init]\nproviders = providers\nalg_section = algorithms\n\
         [providers]\ntabane = tabane\ndefault = default_sect\n\
         [tabane]\nmodule = {}\nactivate = 1\n{settings}\n[default_sect]\nactivate = 1\n\
         [algorithms]\ndefault_properties = ?provider=tabane\n\
         [req]\ndistinguished_name = name\n[name]\n",
        module.display(),
    )
}

/// The system's libcrypto, of OpenSSL 3 or else of OpenSSL 4; null if there is none.
fn library() -> *mut c_void {
    const NOW_LOCAL: c_int = 2;
    [c"libcrypto.so.3", c"libcrypto.so.4"]
        .into_iter()
        // SAFETY: a string.
        .map(|name| unsafe { dlopen(name.as_ptr(), NOW_LOCAL) })
        .find(|library| !library.is_null())
        .unwrap_or(ptr::null_mut())
}

/// libcrypto, if the system has one of OpenSSL 3 or 4, with what a file of configuration says.
/// Before it is read, `prepare` gets the functions and the context.
pub fn open(configuration: &Path, prepare: impl FnOnce(&Functions, Pointer)) -> Option<Libcrypto> {
    let library = library();
    if library.is_null() {
        return None;
    }
    let configuration = CString::new(configuration.to_str().unwrap()).unwrap();
    // SAFETY: the name stands for OpenSSL 3 or 4. The calls are as in the manual.
    unsafe {
        let functions = Functions::find(library);
        let context = (functions.OSSL_LIB_CTX_new)();
        prepare(&functions, context);
        let loaded = (functions.OSSL_LIB_CTX_load_config)(context, configuration.as_ptr());
        assert_eq!(loaded, 1);
        Some(Libcrypto { functions, context })
    }
}

/// libcrypto, if the system has one of OpenSSL 3. Says so if not.
pub fn libcrypto() -> Option<&'static Libcrypto> {
    static LIBCRYPTO: OnceLock<Option<Libcrypto>> = OnceLock::new();
    let found = LIBCRYPTO.get_or_init(|| {
        let file = modules().join("tests.cnf");
        std::fs::write(&file, configuration("hashes = yes")).unwrap();
        open(&file, |_, _| {})
    });
    if found.is_none() {
        println!("NOT CHECKED: the provider in OpenSSL, for libcrypto.so.3 is missing");
    }
    found.as_ref()
}

/// Asks for the algorithm of our provider, and for that of the default one.
pub const QUERIES: [&CStr; 2] = [c"provider=tabane", c"provider=default"];

/// What `fetch` finds in each of the two. None if ours does not offer it.
pub fn fetch_both(
    libcrypto: &Libcrypto,
    fetch: unsafe extern "C" fn(Pointer, *const c_char, *const c_char) -> Pointer,
    name: &str,
) -> Option<[Pointer; 2]> {
    let name = CString::new(name).unwrap();
    // SAFETY: as in the manual.
    let [ours, theirs] =
        QUERIES.map(|query| unsafe { fetch(libcrypto.context, name.as_ptr(), query.as_ptr()) });
    assert!(!theirs.is_null(), "the default provider has {name:?}");
    if ours.is_null() {
        // SAFETY: as in the manual.
        unsafe { (libcrypto.functions.ERR_clear_error)() };
        println!("{name:?} is not offered");
        return None;
    }
    Some([ours, theirs])
}

/// A function that not every libcrypto has.
pub fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a string; the library stays open.
    let found = unsafe { dlsym(library(), name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// A text of libcrypto, if it is there.
///
/// # Safety
///
/// `text` is null or a string.
pub unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// Names, types and lengths of the parameters in a table, sorted.
///
/// # Safety
///
/// `params` is null or a table with an end.
pub unsafe fn described(params: *const Param) -> Vec<(String, u32, usize)> {
    let mut described = Vec::new();
    let mut next = params;
    // SAFETY: the caller's promise.
    unsafe {
        while let Some(param) = next.as_ref()
            && let Some(name) = text(param.key)
        {
            described.push((name, param.data_type, param.data_size));
            next = next.add(1);
        }
    }
    described.sort();
    described
}

/// No object.
pub const NONE: Pointer = ptr::null_mut();
