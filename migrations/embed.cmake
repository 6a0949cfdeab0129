# cmake -DOUTPUT=F -DFOLDER=D -P embed.cmake: writes the SQL files of D into the C++ source F as string literals.
function(read_sql file into)
  file(READ ${file} text)
  if(text MATCHES "\\)sql\"")
    message(FATAL_ERROR "${file} holds the end mark of a C++ string literal")
  endif()
  set(${into} "R\"sql(${text})sql\"" PARENT_SCOPE)
endfunction()

file(GLOB files ${FOLDER}/[0-9][0-9][0-9][0-9]_*.sql)
list(SORT files)
set(rows "")
foreach(file IN LISTS files)
  read_sql(${file} literal)
  get_filename_component(name ${file} NAME_WE)
  string(SUBSTRING ${name} 0 4 digits)
  string(REGEX REPLACE "^0+" "" version ${digits})
  string(APPEND rows "    {${version}, \"${name}\", ${literal}},\n")
endforeach()
read_sql(${FOLDER}/from_44abce1.sql upgrade)
file(WRITE ${OUTPUT} "#include \"daemon/store/sqlite/migrate.hpp\"

namespace driftgate::store {

namespace {
constexpr Migration kMigrations[] = {
${rows}};
}  // namespace

std::span<const Migration> embedded_migrations() { return kMigrations; }
const char* upgrade_from_44abce1() { return ${upgrade}; }

}  // namespace driftgate::store
")
